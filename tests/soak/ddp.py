#!/usr/bin/env python3
"""Kills a rank of a training job at a random moment: every survivor must end within a second and name it.

    ddp.py [KILLS]    20 unless said, over 2 and 4 ranks in turn

The ranks are started by hand: a launcher would end the survivors before they can say anything.
"""

import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin")) / "lockstep-train"
LIMIT = 1.0  # From the kill until the last survivor has said so.


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(ranks):
    port = str(free_port())
    jobs = []
    for rank in range(ranks):
        place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)}
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        jobs.append(
            subprocess.Popen(
                [TRAIN, "--fast-dev-run", "1000000", "--backend", "shm"],
                env={**os.environ, **place, **master},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return jobs


def told(job, name):
    """The line of a rank's stderr that has the name; empty if it ends without."""
    for line in job.stderr:
        if name in line:
            return line
    return ""


def kill_one(ranks):
    """What went wrong, and seconds until the last survivor had named the victim."""
    jobs = start(ranks)
    try:
        for _ in range(2):  # Rank 0 has said what it trains on: all are there.
            jobs[0].stdout.readline()
        time.sleep(random.uniform(0.2, 1.5))
        victim = random.randrange(ranks)
        jobs[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        faults = []
        for rank, job in enumerate(jobs):
            if rank != victim:
                text = told(job, f"rank {victim} (pid {jobs[victim].pid}")
                seconds = time.monotonic() - killed
                if job.wait(timeout=30) == 0 or not text:
                    faults.append(f"rank {rank} ended with {job.returncode} and did not name rank {victim}")
        return faults, seconds
    finally:
        for job in jobs:
            job.kill()
            job.wait()


def main(kills=20):
    times = []
    for i in range(kills):
        faults, seconds = kill_one((2, 4)[i % 2])
        times.append(seconds)
        for fault in faults:
            sys.exit(f"ddp: kill {i}: {fault}")
    times.sort()
    middle, last = times[len(times) // 2], times[-1]
    print(f"ddp: {kills} kills, all survivors named the victim; after {middle:.2f} s, at most {last:.2f} s")
    if middle > LIMIT:
        sys.exit(f"ddp: expected at most {LIMIT} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
