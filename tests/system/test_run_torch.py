"""Python's torch.distributed under `lockstep run`."""

import os
import signal

from conftest import wait_for

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
os.write(1, f"sum {total.item()} of {dist.get_world_size()}\\n".encode())
dist.destroy_process_group()
"""

DDP = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
os.write(1, ("%r\\n" % [p.tolist() for p in model.parameters()]).encode())
dist.destroy_process_group()
"""

DYING = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
open("up%d" % dist.get_rank(), "w").write(str(os.getpid()))
while True:
    dist.all_reduce(torch.ones(1000))
"""


def test_all_reduce_of_two_ranks(launcher):
    done = launcher.run("--nproc-per-node", 2, launcher.script(ALL_REDUCE), timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["sum 3.0 of 2"] * 2
    launcher.assert_clean(0)


def test_ddp_keeps_two_ranks_equal(launcher):
    done = launcher.run("--nproc-per-node", 2, launcher.script(DDP), timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    launcher.assert_clean(0)


def test_restarted_group_meets_again(launcher):
    script = launcher.script(
        ALL_REDUCE + 'os._exit(3) if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else None\n')
    done = launcher.run("--nproc-per-node", 2, "--max-restarts", 1, script, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["sum 3.0 of 2"] * 4


def test_killed_rank_is_the_root_cause_not_the_one_that_noticed(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(DYING))
    files = launcher.up(2)
    wait_for(lambda: files[1].read_text())
    os.kill(int(files[1].read_text()), signal.SIGKILL)
    _, err = job.communicate(timeout=20)
    assert job.returncode == 137
    assert "root cause: rank 1" in err
    launcher.assert_clean(0)
