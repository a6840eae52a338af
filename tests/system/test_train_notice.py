"""A signal while a run starts, and the time that ranks have to save after one."""

import contextlib
import fcntl
import os
import pathlib
import re
import signal
import time

import pytest

from conftest import wait_for
from training import checkpoint, ranks, start, stop_rank, wait_for_steps, write_idx

RUN = "runs/data-convnet"
# 4 steps an epoch, and 2000 batches of validation for each of two ranks.
FLAGS = ["data", "--nproc", 2, "--batch-size", 16, "--epochs", 2, "--log-interval", 1, "--validation-batch-size", 1]
STEPS = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_idx(tmp_path_factory.mktemp("notice") / "data", train=32 * STEPS, test=4000)


def test_ranks_have_the_time_to_save_that_was_asked_for(tmp_path, data):
    """More than the launcher's 30 s; and it does kill those that take longer."""
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--shutdown-timeout", 77)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    job.send_signal(signal.SIGTERM)
    err = job.communicate(timeout=60)[1]
    assert job.returncode == 143 and "with 77 s to end" in err
    job = start(tmp_path, *FLAGS, "--shutdown-timeout", 1)
    wait_for_steps(tmp_path / RUN, STEPS + 1, job)
    stop_rank(tmp_path, 1)
    job.send_signal(signal.SIGTERM)
    err = job.communicate(timeout=60)[1]
    assert "did not end within 1 s: killed" in err


@contextlib.contextmanager
def held_back(file):
    """Whoever opens this file waits in open() until the block ends, by a lease of the kernel (fcntl, F_SETLEASE).
    Gives a function that says whether somebody waits."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # What the kernel sends to the holder then.
    holder = os.open(file, os.O_RDWR)
    try:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield lambda: fcntl.fcntl(holder, fcntl.F_GETLEASE) != fcntl.F_WRLCK
    finally:
        os.close(holder)
        signal.signal(signal.SIGIO, before)


def is_pending(pid, number):
    """Whether the signal waits for the process, whose threads all hold it back."""
    waiting = re.search(r"^ShdPnd:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    return int(waiting, 16) >> (number - 1) & 1 == 1


@pytest.mark.parametrize("flags", [[], ["--nproc", 1, "--max-restarts", 3]], ids=["alone", "with a launcher"])
def test_a_notice_that_comes_before_the_data_is_read_stops_in_order(tmp_path, flags):
    """Reading the data takes as long as the test wants."""
    table = tmp_path / "points.csv"
    table.write_text("".join(f"{i % 17},{i % 5},{int(i % 17 > 8)}\n" for i in range(200)))
    with held_back(table) as is_wanted:
        job = start(tmp_path, table.name, "--batch-size", 20, "--epochs", 1000, *flags)
        wait_for(lambda: job.poll() is not None or is_wanted(), what="a rank that opens its data")
        assert job.poll() is None, job.communicate()
        job.send_signal(signal.SIGUSR1)
        rank = ranks(tmp_path).get(0, job.pid)
        wait_for(lambda: job.poll() is not None or is_pending(rank, signal.SIGUSR1), what="a notice that waits")
        assert job.poll() is None, job.communicate()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 75, err
    assert "stopped by SIGUSR1 in epoch 1, step 0" in out and "restarting" not in err
    assert checkpoint(tmp_path / "runs/points-mlp")["metrics"]["step"] == 0


def test_a_notice_to_ranks_whose_libraries_are_being_loaded_stops_in_order(tmp_path, data):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--max-restarts", 3)
    while len(ranks(tmp_path)) < 2:
        assert job.poll() is None, job.communicate()
        time.sleep(0.01)
    job.send_signal(signal.SIGUSR1)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 75, err
    assert "stopped by SIGUSR1 in epoch 1, step" in out and "restarting" not in err


def test_a_rank_that_dies_after_a_notice_is_not_restarted(tmp_path, data):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--max-restarts", 3)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    rank = stop_rank(tmp_path, 0)  # So that it dies before it can obey.
    job.send_signal(signal.SIGUSR1)
    wait_for(lambda: is_pending(rank, signal.SIGUSR1), what="a notice that waits")
    os.kill(rank, signal.SIGKILL)
    err = job.communicate(timeout=60)[1]
    assert job.returncode == 137, err
    assert "no restart: the job was asked to stop by SIGUSR1" in err and "restarting" not in err


def test_nothing_is_restarted_after_two_notices(tmp_path, data):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--max-restarts", 3)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    for _ in range(2):
        job.send_signal(signal.SIGUSR1)
        time.sleep(0.01)
    err = job.communicate(timeout=60)[1]
    assert job.returncode in (75, 138), err  # A rank may save before the second one comes.
    assert "restarting" not in err
