"""A worker that exits 75 stopped in order: nobody is signalled, nothing restarts, the code is 75."""

import os
import re
import signal
import time

import pytest
from conftest import wait_for
from test_run_nodes import Nodes, finish

# Leaves with 75 by SIGUSR1, rank 0 later than the others; notes every other signal.
SAVES = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
def note(number, frame):
    open("got%d.%d" % (rank, number), "w").close()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, note)
def leave(number, frame):
    if rank == 0:
        time.sleep(0.5)
        open("saved", "w").close()
    sys.exit(75)
signal.signal(signal.SIGUSR1, leave)
open("new%d" % rank, "w").write(str(os.getpid()))
os.rename("new%d" % rank, "up%d" % rank)
while True:
    time.sleep(0.05)
"""

TEXT = (r"lockstep run: the job stopped in order: rank 1 \(local rank \d\) on .*, pid \d+: exit code 75; "
        r"nothing is restarted, and the same command goes on\n")
# After a second, which a loaded machine takes.
WAITS = r"(lockstep run: the job is being stopped; waiting up to 30 s for rank \d \(pid \d+\) to end\n)?"


def test_stop_in_order_waits_for_all_and_restarts_nothing(launcher):
    job = launcher.start("--nproc-per-node", 2, "--max-restarts", 3, launcher.script(SAVES))
    launcher.up(2)
    job.send_signal(signal.SIGUSR1)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 75
    assert re.fullmatch(WAITS + TEXT, err), err
    assert (launcher.folder / "saved").exists()
    assert list(launcher.folder.glob("got*")) == []
    launcher.assert_clean(0)


def test_others_have_the_shutdown_timeout(launcher):
    job = launcher.start("--nproc-per-node", 2, "--shutdown-timeout", 1, "sh", "-c",
                         "[ $RANK = 1 ] && exit 75; sleep 100")
    begin = time.monotonic()
    _, err = job.communicate(timeout=20)
    assert 0.9 < time.monotonic() - begin < 5
    assert job.returncode == 75
    assert "did not end within 1 s: killed" in err and re.search(TEXT, err)
    launcher.assert_clean(0)


def test_ctrl_c_during_a_stop_in_order_is_passed_on(launcher):
    job = launcher.start("--nproc-per-node", 2, "sh", "-c", "[ $RANK = 1 ] && exit 75; exec sleep 100")
    wait_for(lambda: os.read(job.stderr.fileno(), 200), what="a word about the wait for rank 0")
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 75
    assert "SIGINT received: passed on to 1 worker" in err and re.search(TEXT, err)
    launcher.assert_clean(0)


@pytest.mark.parametrize("asked", [0, 1])
def test_stop_in_order_of_several_nodes(launcher, asked):
    nodes = Nodes(launcher)
    script = launcher.script(SAVES)
    jobs = [nodes.start(rank, "--max-restarts", 3, script) for rank in (0, 1)]
    launcher.up(2)
    if asked == 0:  # As Slurm does: all launchers at once.
        for job in jobs:
            job.send_signal(signal.SIGUSR1)
    else:  # One rank alone leaves; the other has the shutdown time, and its own reason to leave then.
        os.kill(int((launcher.folder / "up1").read_text()), signal.SIGUSR1)
        time.sleep(0.5)
        assert [job.poll() for job in jobs] == [None, None]
        os.kill(int((launcher.folder / "up0").read_text()), signal.SIGUSR1)
    for _, err, code in finish(*jobs):
        assert code == 75
        assert re.fullmatch(WAITS + TEXT, err), err
    assert (launcher.folder / "saved").exists()
    assert list(launcher.folder.glob("got*")) == []
    launcher.assert_clean()


def test_outer_launcher_sees_a_stop_in_order_and_no_failure(launcher):
    inner = launcher.command("--nproc-per-node", 1, "sh", "-c", "exit 75")
    done = launcher.run("--nproc-per-node", 1, "--max-restarts", 2, *inner)
    assert done.returncode == 75
    assert done.stderr.count("the job stopped in order: rank 0") == 2
    assert "failed" not in done.stderr and "restarting" not in done.stderr
