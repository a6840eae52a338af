#!/usr/bin/env python3
"""Starts and kills launchers many times and counts what goes wrong or is left behind.

    launcher.py [--starts 200] [--kills 50] [--at-once 8]

Prints one line per loop; exit code 1 if there was any failure or leftover. A job is two ranks that
meet in the store (examples/all_reduce) where that is built, else two shells.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
MARK = f"LOCKSTEP_SOAK_MARK={uuid.uuid4()}"

# Two ranks, each with a child in a session of its own whose parent has ended.
HARD_TO_KILL = "(setsid sh -c 'trap \"\" TERM INT HUP; sleep 100 & wait' &) ; touch up$RANK; sleep 100"


def marked():
    """{pid: command} of living processes that a launcher of this script started."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if MARK.encode() not in pathlib.Path(entry.path, "environ").read_bytes():
                continue
            if pathlib.Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                command = pathlib.Path(entry.path, "cmdline").read_bytes()
                found[int(entry.name)] = command.replace(b"\0", b" ").decode()
        except OSError:
            pass
    return found


def start(folder, *program):
    environment = dict(os.environ, TMPDIR=str(folder), OMP_NUM_THREADS="1")
    environment.update([MARK.split("=")])
    return subprocess.Popen(
        [BIN / "lockstep", "run", "--nproc-per-node", "2", *program],
        env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def tiny_job():
    toy = BIN / "examples" / "all_reduce"
    return [str(toy)] if toy.exists() else ["sh", "-c", "exit 0"]


def run_one(_):
    """What went wrong in one complete job; empty if nothing."""
    with tempfile.TemporaryDirectory(prefix="lockstep_soak_") as folder:
        job = start(folder, *tiny_job())
        try:
            _, err = job.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            job.kill()
            return "no end within 120 s"
        left = os.listdir(folder)
        return (f"exit code {job.returncode}: {err.strip()[-300:]}" if job.returncode else "") + (
            f"left files {left}" if left else "")


def soak_starts(count, at_once):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        wrong = [problem for problem in pool.map(run_one, range(count)) if problem]
    left = marked()
    print(f"{count} starts, {at_once} at a time: {len(wrong)} failures, {len(left)} leftovers")
    for problem in [*wrong[:5], *list(left.items())[:5]]:
        print("  ", problem)
    return not wrong and not left


def kill_one(folder, delay):
    """Kills a launcher after `delay` seconds, or when its workers are up; how long all took to go."""
    job = start(folder, "sh", "-c", HARD_TO_KILL)
    if delay is None:
        while not all((folder / f"up{rank}").exists() for rank in (0, 1)):
            time.sleep(0.002)
    else:
        time.sleep(delay)
    job.kill()
    job.wait()
    begin = time.monotonic()
    while marked() and time.monotonic() - begin < 5:
        time.sleep(0.01)
    return time.monotonic() - begin


def soak_kills(count):
    orphans, files, slowest = 0, 0, 0.0
    for i in range(count):
        with tempfile.TemporaryDirectory(prefix="lockstep_soak_") as folder:
            folder = pathlib.Path(folder)
            slowest = max(slowest, kill_one(folder, None if i % 2 == 0 else random.random() * 0.05))
            left = marked()
            orphans += len(left)
            files += len([name for name in os.listdir(folder) if name.startswith("lockstep_")])
            for pid in left:
                os.kill(pid, 9)
    print(f"{count} kills of the launcher: {orphans} orphans, {files} files left, "
          f"all gone after {slowest * 1000:.0f} ms at most")
    return orphans == 0 and files == 0 and slowest < 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=8)
    options = parser.parse_args()
    good = soak_starts(options.starts, options.at_once)
    good = soak_kills(options.kills) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
