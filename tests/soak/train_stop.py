#!/usr/bin/env python3
"""Signals training twice while a rank cannot stop in order: every process must be gone within 2 s.

    train_stop.py [RUNS]    20 runs unless said

Two ranks train. One of them stands still, by turns, so the first SIGINT ends nobody: the other waits for it, and
--shutdown-timeout is longer than all runs. Time is measured from the second SIGINT until neither launcher nor agent,
store or rank is left.
"""

import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

from train import GONE_WITHIN, find, job_processes, kill_one, make_images, start, wait_until_gone

FEWEST = 4  # Launcher, agent and two ranks; a store is not always a process of its own.


def read_until(job, text):
    """Returns behind the first line that has this text."""
    seen = []
    for line in job.stdout:
        seen.append(line)
        if text in line:
            return
    sys.exit(f"train_stop: the job ended with {job.wait()} before '{text}':\n{''.join(seen)[-3000:]}")


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def stand_still(pid):
    os.kill(pid, signal.SIGSTOP)
    while state_of(pid) != "T":
        time.sleep(0.002)


def one_run(data, output, rank):
    """Seconds from the second signal until all are gone."""
    job = start(data, output, "--shutdown-timeout", "300")
    read_until(job, "epoch 1/")
    stand_still(*find(f"rank {rank}", job))
    job.send_signal(signal.SIGINT)
    read_until(job, "SIGINT received")
    if len(job_processes()) < FEWEST:
        sys.exit(f"train_stop: {len(job_processes())} processes before the second signal, expected {FEWEST} at least")
    job.send_signal(signal.SIGINT)
    seconds = wait_until_gone()
    rest = job.communicate()[0]
    if job.returncode != 128 + signal.SIGINT or "stopped by" in rest:
        sys.exit(f"train_stop: the job ended with {job.returncode}, expected {128 + signal.SIGINT} and no orderly end:\n"
                 f"{rest[-3000:]}")
    return seconds


def soak(folder, runs):
    data = folder / "images"
    data.mkdir()
    make_images(data)
    try:
        return [one_run(data, folder / f"run{i}", i % 2) for i in range(runs)]
    finally:
        for pid in job_processes():  # Of a run that failed.
            kill_one(pid)


def main(runs=20):
    with tempfile.TemporaryDirectory(prefix="lockstep_soak_") as folder:
        seconds = soak(pathlib.Path(folder), runs)
    print(f"train_stop: {runs} runs with a second SIGINT: all gone after {statistics.median(seconds):.2f} s in the median, "
          f"{max(seconds):.2f} s at most")
    if max(seconds) > GONE_WITHIN:
        sys.exit(f"train_stop: expected all gone within {GONE_WITHIN} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
