"""lockstep.arena() and LOCKSTEP_ARENA=1: tensors that are reduced where they lie."""

import pytest
from conftest import INIT, REGISTER, ROOT

# What the group copies in an all_reduce, as it counts itself.
COUNT = INIT + """
import lockstep
LARGE = 1 << 20  # Elements: 4 MiB.
def stats(name):
    return lockstep.memory_stats()[name]
def copied(tensor, group=None):
    before = lockstep.memory_stats(group)["copied_bytes"]
    dist.all_reduce(tensor, group=group)
    return lockstep.memory_stats(group)["copied_bytes"] - before
"""

INSIDE = COUNT + """
outside = torch.full((LARGE,), rank + 1.0)
assert copied(outside) == 4 * LARGE and stats("allocated_bytes") == 0
with lockstep.arena():
    inside = torch.full((LARGE,), rank + 1.0)
    small = torch.ones(8191)
    assert stats("allocated_bytes") == 4 * LARGE
    with lockstep.arena():
        pass
    again = torch.ones(8192)
    assert stats("allocated_bytes") == 4 * LARGE + 4 * 8192
assert copied(inside) == 0 and copied(inside[1:]) == 0
assert inside[1:].eq(6).all() and inside[0] == 3 and outside.eq(3).all()
after = torch.ones(LARGE)
assert stats("allocated_bytes") == 4 * LARGE + 4 * 8192
del inside, again
assert stats("allocated_bytes") == 0 and stats("reserved_bytes") >= 4 * LARGE
"""

# Gradients of the sizes of ResNet's, in two buckets. Prints a hash of the weights, what the last step copied,
# what its gradients take, and whether the arena has room for them. "rank_order" is Gloo with sums in the order of ranks, as lockstep's are.
DDP = """
import os
BACKEND = os.environ["BACKEND"]
""" + INIT.replace('"lockstep"', '"gloo" if BACKEND == "rank_order" else BACKEND') + f"""
sys.path.append({str(ROOT / "benchmarks/peers")!r})
""" + """
import contextlib, hashlib
from rank_order import RankOrderGroup
from torch import nn
if BACKEND == "lockstep":
    import lockstep
def count(name):
    return lockstep.memory_stats()[name] if BACKEND == "lockstep" else 0
torch.manual_seed(0)
torch.set_num_threads(1)
widths = (3, 64, 128, 256, 512)
layers = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Conv2d(*pair, 3, padding=1), nn.ReLU())]
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
with lockstep.arena() if "ARENA" in os.environ else contextlib.nullcontext():
    group = RankOrderGroup() if BACKEND == "rank_order" else dist.group.WORLD
    model = nn.parallel.DistributedDataParallel(net, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        before = count("copied_bytes")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(2, 3, 8, 8)), torch.randint(1000, (2,))).backward()
        optimizer.step()
        last = count("copied_bytes") - before
weights = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
print(hashlib.sha256(weights).hexdigest(), last, len(weights), count("allocated_bytes") >= len(weights))
"""

OUTLIVES = COUNT + """
with lockstep.arena():
    kept = torch.full((LARGE,), rank + 1.0)
    freed_later = torch.ones(LARGE)
    assert copied(kept) == 0
    dist.destroy_process_group()
    kept += 1
    assert kept.eq(4).all()
    ordinary = torch.full((LARGE,), 5.0)
    assert ordinary.eq(5).all() and kept.clone().eq(4).all()
del freed_later
dist.init_process_group("lockstep", init_method=os.environ["INIT_METHOD"] + "2", rank=rank, world_size=2)
assert copied(kept) == 4 * LARGE and kept.eq(8).all()  # Memory of another group.
with lockstep.arena():
    new = kept.clone()
assert copied(new) == 0 and new.eq(16).all()
del new
dist.destroy_process_group()
assert kept.eq(8).all()
"""

WITHOUT_GROUP = REGISTER + """
import lockstep
for call in (lockstep.arena().__enter__, lockstep.memory_stats):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""

OTHER_GROUPS = """
import os
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
""" + COUNT + """
pair, alone, gloo = dist.new_group([0, 1]), dist.new_group([0]), dist.new_group(backend="gloo")
for group in (gloo, alone):
    try:
        with lockstep.arena(group):
            print(torch.ones(LARGE).sum().item())
    except RuntimeError as error:
        print(error)
with lockstep.arena(pair):
    tensor = torch.ones(LARGE)
assert copied(tensor, pair) == 0 and copied(tensor) == 4 * LARGE
"""

TWO_HOSTS = """
import os
os.environ.update(LOCKSTEP_HOST_ID="host " + os.environ["RANK"], GLOO_SOCKET_IFNAME="lo")
""" + INIT + """
import lockstep
try:
    with lockstep.arena():
        pass
except RuntimeError as error:
    print(error)
total = torch.ones(1 << 20)
dist.all_reduce(total)
assert total.eq(2).all()
"""

EVERYWHERE = COUNT + """
import threading
made = []
thread = threading.Thread(target=lambda: made.append(torch.ones(LARGE)))
thread.start()
thread.join()
pair = dist.new_group([0, 1])
print(copied(made[0]), copied(torch.ones(LARGE)))
with lockstep.arena(pair):
    tensor = torch.ones(LARGE)
print(copied(tensor, pair))
dist.destroy_process_group()
assert torch.ones(LARGE).sum() == LARGE and made[0].eq(2).all()
"""

# The files of a process, and with them its segment, are limited: the arena is full after some tensors.
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, 16 << 20))
""" + COUNT + """
with lockstep.arena():
    tensors = [torch.ones(LARGE) for _ in range(8)]
copies = [copied(tensor) for tensor in tensors]
assert copies[0] == 0 and copies[-1] == 4 * LARGE, copies
assert all(tensor.eq(2).all() for tensor in tensors)
"""

WORKERS = COUNT + """
from torch.utils.data import DataLoader, TensorDataset
with lockstep.arena():
    images, total = torch.arange(LARGE, dtype=torch.float32).view(16, -1), torch.full((LARGE,), rank + 1.0)
    loader = DataLoader(TensorDataset(images), batch_size=4, num_workers=2, multiprocessing_context="fork")
    seen = torch.cat([batch for batch, in loader])
assert seen.equal(images)
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads.
child = os.fork()
if child == 0:
    total.numpy().fill(7)  # Its own copy from now on.
    own = torch.empty(LARGE).numpy()
    os._exit(0 if (total.numpy() == 7).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert copied(total) == 0 and total.eq(3).all()
"""

# c10 has a second allocator, and lets every program set one.
FOREIGN = COUNT + """
import ctypes
c10 = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
other = c10._ZN3c1028GetDefaultMobileCPUAllocatorEv
other.restype = ctypes.c_void_p
c10._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh(ctypes.c_void_p(other()), ctypes.c_uint8(0))
for _ in range(2):
    with lockstep.arena():
        tensor = torch.ones(LARGE)
assert stats("allocated_bytes") == 0 and copied(tensor) == 4 * LARGE
"""

OFF = COUNT + """
with lockstep.arena():
    tensor = torch.ones(LARGE)
assert stats("allocated_bytes") == 0 and copied(tensor) == 4 * LARGE
"""


@pytest.mark.parametrize("script", [INSIDE, OUTLIVES, FULL, WORKERS],
                         ids=["inside", "outlives_its_group", "full", "forks"])
def test_tensors_of_the_arena(ranks, script):
    assert ranks(script).finish() == [(0, "", "")] * 2


@pytest.fixture
def trained(ranks, monkeypatch, tmp_path):
    """(hash of the weights, bytes copied by the last step, bytes of gradients, whether as many are in the arena) of each
    rank."""

    def train(backend, world, **environment):
        monkeypatch.setenv("BACKEND", backend)
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        ended = ranks(DDP, world).finish()
        for name in environment:
            monkeypatch.delenv(name)
        (tmp_path / "meeting").unlink(missing_ok=True)
        assert [code for code, _, _ in ended] == [0] * world, ended
        return [out.split() for _, out, _ in ended]

    return train


@pytest.mark.parametrize("world, peer", [(1, "gloo"), (2, "gloo"), (3, "rank_order")])
def test_buckets_of_pythons_ddp_lie_in_it_and_results_are_the_same(trained, world, peer):
    """The sum of three has more than one order, and Gloo's own is another than ours."""
    theirs, outside = trained(peer, world), trained("lockstep", world)
    inside, everywhere = trained("lockstep", world, ARENA="1"), trained("lockstep", world, LOCKSTEP_ARENA="1")
    weights, _, size, _ = theirs[0]
    assert [(weight, arena) for weight, _, _, arena in outside] == [(weights, "False")] * world
    # Each rank copies the others' shares of its gradients in, and the sums of these shares out.
    assert sum(int(copied) for _, copied, _, _ in outside) == 2 * (world - 1) * int(size)
    assert inside == [[weights, "0", size, "True"]] * world
    # The environment leaves a group of one rank alone, which reduces nothing.
    assert everywhere == (inside if world > 1 else outside)


def test_without_a_group_it_is_an_error(ranks):
    (code, out, err), = ranks(WITHOUT_GROUP, count=1).finish()
    assert code == 0, err
    assert out.splitlines() == [
        f'{call}: there is no process group; call init_process_group("lockstep") first'
        for call in ("lockstep.arena", "lockstep.memory_stats")
    ]


def test_a_group_can_be_given_and_others_are_refused_by_name(ranks):
    first, second = ranks(OTHER_GROUPS).finish()
    assert (first[0], second[0]) == (0, 0), (first, second)
    refused, alone = first[1].splitlines()
    assert refused == "lockstep.arena: the group's backend for CPU tensors is 'gloo', expected 'lockstep'"
    assert alone == str(float(1 << 20))
    refused, no_member = second[1].splitlines()
    assert "is no process group that this rank is a member of" in no_member


@pytest.mark.parametrize("value", ["", "1"])
def test_between_hosts_it_says_that_it_cannot_help(ranks, monkeypatch, value):
    monkeypatch.setenv("LOCKSTEP_ARENA", value)
    for code, out, err in ranks(TWO_HOSTS).finish():
        assert code == 0, err
        assert out.startswith("lockstep.arena: the group's ranks are on several hosts and share no memory")
        assert ("LOCKSTEP_ARENA=1 does nothing: lockstep.arena: the group's ranks" in err) == (value == "1"), err


@pytest.mark.parametrize("value, copies", [("1", ["0 0", "0"]), ("0", [f"{4 << 20} {4 << 20}", "0"])])
def test_the_environment_turns_it_on_in_all_threads(ranks, monkeypatch, value, copies):
    monkeypatch.setenv("LOCKSTEP_ARENA", value)
    assert ranks(EVERYWHERE).finish() == [(0, "\n".join(copies) + "\n", "")] * 2


def test_a_wrong_value_in_the_environment_is_an_error(ranks, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_ARENA", "yes")
    (code, _, err), = ranks(INIT, count=1).finish()
    assert code == 1
    assert err.splitlines()[-1] == ("RuntimeError: environment variable LOCKSTEP_ARENA is 'yes', expected 1 (tensors "
                                    "lie in the arena) or 0")


def test_it_steps_aside_for_another_allocator_and_says_so_once(ranks):
    for code, out, err in ranks(FOREIGN).finish():
        assert (code, out) == (0, ""), err
        assert err.count("the program has a CPU allocator of its own (c10::SetCPUAllocator)") == 1


def test_libtorchs_allocator_stays_where_the_environment_says_so(ranks, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_ALLOCATE_IN_BUCKETS", "0")
    assert ranks(OFF).finish() == [(0, "", "")] * 2
