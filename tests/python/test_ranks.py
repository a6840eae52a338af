"""torch.distributed over the backend: what a Python program sees of it, also when things go wrong."""

import os
import signal

import pytest
from conftest import INIT, OLD_TORCH, REGISTER, ROOT
from torch._C._distributed_c10d import Backend

# What README promises beyond all_reduce: objects, messages, groups of some ranks, futures.
TOUR = INIT + """
everyone = [None] * 2
dist.all_gather_object(everyone, {"rank": rank})
assert everyone == [{"rank": 0}, {"rank": 1}]
other, mine = torch.zeros(3), torch.full((3,), float(rank))
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]):
    work.wait()
assert other.tolist() == [1.0 - rank] * 3
alone, both = dist.new_group([0]), dist.new_group([1, 0], timeout=timedelta(seconds=5))
ones = torch.ones(2)
if rank == 0:
    dist.all_reduce(ones, group=alone)
assert ones.tolist() == [1, 1]
future = dist.all_reduce(ones, group=both, async_op=True).get_future().then(lambda done: done.value()[0] * 10)
assert future.wait().tolist() == [20, 20]
""" + ("" if OLD_TORCH else "dist.monitored_barrier()\n") + """
dist.destroy_process_group(both)
dist.destroy_process_group()
dist.init_process_group("cpu:lockstep", init_method=os.environ["INIT_METHOD"] + "2", rank=rank, world_size=2)
dist.all_reduce(ones)
assert ones.tolist() == [4, 4]
"""  # It ends without destroy_process_group().

SPAWN = REGISTER + """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, path):
    dist.init_process_group("lockstep", init_method="file://" + path, rank=rank, world_size=2)
    total = torch.ones(1000) * (rank + 1)
    dist.all_reduce(total)
    assert total.eq(3).all()

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        mp.start_processes(work, args=(os.getcwd() + "/" + method,), nprocs=2, start_method=method)
"""

DYING = INIT + """
open("new%d" % rank, "w").write(str(os.getpid()))
os.rename("new%d" % rank, "up%d" % rank)
while True:
    dist.all_reduce(torch.ones(1000))
"""

CONNECTIONS = REGISTER + """
import os, sys, torch, torch.distributed as dist
sys.path.insert(0, "%s")
import sockets
dist.init_process_group(sys.argv[1])
dist.all_reduce(torch.ones(1 << 20))
ports = sorted({int(remote.split(":")[1], 16) == int(os.environ["MASTER_PORT"]) for _, remote in sockets.held()})
os.write(1, f"{ports}\\n".encode())
dist.barrier()
"""

# In a group on one host and in one over hosts.
ON_HOSTS = """
import os
if len(os.environ["HOSTS"]) > 1:
    os.environ.update(LOCKSTEP_HOST_ID=os.environ["HOSTS"][int(os.environ["RANK"])], GLOO_SOCKET_IFNAME="lo")
""" + INIT

# Some ranks as a group, and a receive that tells when it is done.
SPLIT = ON_HOSTS + """
part = dist.split_group(split_ranks=[[0, 1], [2]])
total = torch.ones(2)
dist.all_reduce(total, group=part)
assert total.tolist() == ([2, 2] if rank < 2 else [1, 1])
if rank == 2:
    received = torch.zeros(3)
    future = dist.irecv(received, 0).get_future()
    dist.send(torch.ones(1), 0)
    assert future.wait()[0].tolist() == [4, 4, 4]
elif rank == 0:
    dist.recv(torch.zeros(1), 2)
    dist.send(torch.full((3,), 4.0), 2)
dist.barrier()
print(dist.group.WORLD._get_backend(torch.device("cpu")).name())
"""

BROKEN = ON_HOSTS + """
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
dist.all_reduce(torch.ones(4))
before = backend.get_error().name
try:
    dist.all_reduce(torch.ones(4 + rank))
except RuntimeError:
    print(before, backend.get_error().name)
"""

# Ranks take turns in coming late: the other one must not take the address of the group before.
AGAIN = REGISTER + """
import time, torch, torch.distributed as dist
for turn in range(6):
    dist.init_process_group("lockstep")
    rank = dist.get_rank()
    some = dist.new_group([0, 1])
    for group in (None, some):
        ones = torch.ones(1 << 16)
        dist.all_reduce(ones, group=group)
        assert ones.max() == 2
    dist.destroy_process_group()
    time.sleep(0.05 * (turn % 2 == rank))
"""

TWO_HOSTS = """
import os
os.environ.update(LOCKSTEP_HOST_ID="host " + os.environ["RANK"], GLOO_SOCKET_IFNAME="lo")
""" + INIT + """
total = torch.ones(3) * (rank + 1)
dist.all_reduce(total)
print(total.tolist(), type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__)
dist.barrier()
"""

LONELY = INIT.replace("seconds=60", "seconds=1")

MISUSE = INIT + """
try:
    dist.all_reduce(torch.ones(4), op=dist.ReduceOp.BAND)
except RuntimeError as error:
    print(error)
try:
    dist.all_reduce(torch.ones(4 + rank))
except RuntimeError as error:
    print(error)
"""


def test_the_whole_interface(ranks):
    assert ranks(TOUR).finish() == [(0, "", "")] * 2


def test_a_group_is_destroyed_and_formed_again(launcher):
    done = launcher.run("--nproc-per-node", 2, launcher.script(AGAIN))
    assert (done.returncode, done.stderr) == (0, "")


def test_ranks_that_python_starts(launcher):
    done = launcher.run("--nproc-per-node", 1, launcher.script(SPAWN))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_killed_rank_is_named_by_the_survivor(ranks, launcher):
    both = ranks(DYING)
    files = launcher.up(2)
    victim = int(files[1].read_text())
    os.kill(victim, signal.SIGKILL)
    code, _, err = both.finish()[0]
    assert code == 1
    last = err.strip().splitlines()[-1]
    assert "RuntimeError: all_reduce #" in last, err
    assert f"rank 1 (pid {victim} on " in last and "was killed by SIGKILL" in last, err


def test_a_rank_holds_no_tcp_connection_but_the_stores(launcher):
    script = launcher.script(CONNECTIONS % (ROOT / "tests" / "conformance"))
    of_gloo = launcher.run("--nproc-per-node", 2, script, "gloo")
    assert of_gloo.stdout.splitlines() == ["[False, True]"] * 2, of_gloo.stderr  # So the test can see them.
    ours = launcher.run("--nproc-per-node", 2, script, "lockstep")
    assert ours.stdout.splitlines() == ["[True]"] * 2, ours.stderr


def test_ranks_of_two_hosts_form_a_group(ranks):
    assert ranks(TWO_HOSTS).finish() == [(0, "[3.0, 3.0, 3.0] Backend\n", "")] * 2


@pytest.mark.skipif(OLD_TORCH, reason="split_group of CPU groups came later")
@pytest.mark.parametrize("hosts", ["a", "aab", "abc"])
def test_groups_are_split_and_receives_have_futures(ranks, monkeypatch, hosts):
    monkeypatch.setenv("HOSTS", hosts)
    assert ranks(SPLIT, count=3).finish() == [(0, "lockstep\n", "")] * 3


@pytest.mark.skipif(not hasattr(Backend, "get_error"), reason="get_error() came to Python later")
@pytest.mark.parametrize("hosts", ["a", "abc"])
def test_a_group_tells_whether_it_is_of_use(ranks, monkeypatch, hosts):
    monkeypatch.setenv("HOSTS", hosts)
    for code, out, err in ranks(BROKEN, count=3).finish():
        assert (code, out) == (0, "SUCCESS COMM_ERROR\n"), err


def test_errors_are_exceptions_with_our_words(ranks):
    for rank, (code, out, err) in enumerate(ranks(MISUSE).finish()):
        assert code == 0, err
        refused, mismatch = out.splitlines()
        assert refused == f"all_reduce on rank {rank} of 2: band is not defined for Float"
        assert "4 elements" in mismatch and "5 elements" in mismatch


def test_a_rank_that_does_not_come_is_named(ranks):
    job = ranks(LONELY.replace('os.environ["WORLD_SIZE"]', '"2"'), count=1)
    (code, _, err), = job.finish()
    assert code != 0
    assert "rank 0 of 2 waited 1 s, but rank 1 did not join" in err
