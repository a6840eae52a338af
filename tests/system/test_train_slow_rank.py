"""A rank that all others wait for is named, with its lag."""

import os
import re
import signal
import time

from training import ranks, start, write_idx

NAMED = r"rank 1 is slow: ([\d.]+) ms of work in a step, the others ([\d.]+) ms: all ranks wait ([\d.]+) ms for it"
BURST, BREATH = 0.02, 0.004  # Seconds that a rank is stopped, and runs: as one with a sixth of a core.


def slow_down(pid, until, seconds):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(BURST)
        os.kill(pid, signal.SIGCONT)
        time.sleep(BREATH)


def test_a_slow_rank_is_named_with_its_lag_before_the_next_line_of_the_log(tmp_path):
    """An epoch has 300 steps, and the log no line before its end."""
    write_idx(tmp_path / "data", train=32 * 300, test=20)
    said = tmp_path / "said"
    with said.open("w") as stdout:
        job = start(tmp_path, "data", "--nproc", 2, "--batch-size", 16, "--epochs", 1, "--log-interval", 1000, stdout=stdout)
    try:
        while "epoch of 300 steps" not in said.read_text():
            assert job.poll() is None, job.communicate()
            time.sleep(0.01)
        slow_down(ranks(tmp_path)[1], lambda: "rank 1 is slow" in said.read_text() or job.poll() is not None, 60)
        text = said.read_text()
        named = re.search(NAMED, text)
        assert named, text
        assert "epoch 1/1" not in text[:named.start()], "the first line of the log"
        work, others, lag = map(float, named.groups())
        assert work >= 1.5 * others and lag >= 2
        assert abs(work - others - lag) < 0.2  # They are rounded.
    finally:
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=60)
    assert job.returncode == 143
