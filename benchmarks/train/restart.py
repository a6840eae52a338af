"""What the death of a rank costs: `lockstep train --max-restarts` beside `torchrun --max-restarts`."""

import os
import pathlib
import re
import signal
import tempfile
import threading
import time

from jobs import Job, environment, fail, in_turns, median, ours, peer
from throughput import idx_folder

INTERVAL = 20  # Steps between checkpoints.
KILLED_AT = 35
LIMIT_SECONDS = 180  # From the start of a job to its first new step.
MOST_REPEATS = 5
# What rank 0 prints: steps, and that it goes on from a checkpoint.
OUR_STEP = re.compile(r"epoch (\d+)/\d+ +(\d+)/(\d+) ")
PEER_STEP = re.compile(r"step (\d+)$")
RESUMED = re.compile(r"resumed (from|at) ")


def step_in(line):
    if found := OUR_STEP.search(line):
        epoch, step, steps = map(int, found.groups())
        return (epoch - 1) * steps + step
    found = PEER_STEP.search(line) if not RESUMED.search(line) else None
    return int(found.group(1)) if found else None


def children(pid):
    try:
        return [int(child) for thread in os.scandir(f"/proc/{pid}/task")
                for child in pathlib.Path(thread.path, "children").read_text().split()]
    except FileNotFoundError:
        return []


def rank_process(pid, rank):
    """The first process below that has this RANK: not what a rank started."""
    for child in children(pid):
        try:
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"RANK={rank}".encode() in variables:
            return child
        if not any(variable.startswith(b"RANK=") for variable in variables) and (found := rank_process(child, rank)):
            return found
    return None


class Stuck(Exception):
    pass


def lines_of(job):
    """With the time at which each came. A job that takes too long is ended, and so its output."""
    limit = threading.Timer(LIMIT_SECONDS, job.process.terminate)
    limit.start()
    try:
        for line in job.process.stdout:
            yield line.rstrip(), time.monotonic()
    finally:
        limit.cancel()
    raise Stuck(f"'{' '.join(job.command)}' ended, or did not go on within {LIMIT_SECONDS} s{job.last_words()}")


def cost_of_a_kill(command, env, rank):
    """Seconds from the kill to the first step after it, and to the first one that had not been made before."""
    with Job(command, env) as job:
        last, killed, resumed, result = 0, None, False, {}
        for line, now in lines_of(job):
            resumed = resumed or (killed is not None and RESUMED.search(line) is not None)
            step = step_in(line)
            if step is None:
                continue
            if killed is None and step >= KILLED_AT:
                victim = rank_process(job.process.pid, rank)
                if victim is None:
                    fail(f"rank {rank} was not found below '{' '.join(job.command)}'")
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
            if not resumed:
                last = max(last, step)
                continue
            result.setdefault("first", now - killed)
            if step > last:
                return {**result, "new": now - killed}


def measure(options, _):
    data = idx_folder(options)
    env = environment(max(1, len(os.sched_getaffinity(0)) // options.ranks))
    # Else workers of 2.15 may read addresses of dead ones in torchrun's store (pytorch/pytorch#135712).
    peer_env = {**env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    repeated = 0
    flags = ["--epochs", 1000, "--batch-size", options.restart_batch_size, "--checkpoint-interval", INTERVAL, "--log-interval", 1]

    def our_turn(number):
        command = ours(options, data, *flags, "--nproc", options.ranks, "--max-restarts", 5)
        try:
            return cost_of_a_kill(command, env, number % options.ranks)
        except Stuck as error:
            fail(error)

    def peer_turn(number):
        nonlocal repeated
        checkpoint = pathlib.Path(tempfile.mkdtemp(prefix="peer", dir=options.folder)) / "checkpoint.pt"
        command = peer(options, data.parent.parent, *flags, "--checkpoint", checkpoint, launcher=["--max-restarts", 5])
        try:
            return cost_of_a_kill(command, peer_env, number % options.ranks)
        except Stuck as error:
            repeated += 1
            if repeated > MOST_REPEATS:
                fail(error)
            return peer_turn(number)

    results = in_turns({"ours": our_turn, **({"peer": peer_turn} if options.python else {})}, options.rounds)
    table = {"row": "restart", "rounds": options.rounds, "ranks": options.ranks, "rounds_s": results,
             "torchrun_repeated": repeated}
    for key in ("first", "new"):
        table[key] = {side: median(result, key) for side, result in results.items()}
        table[key]["ratio"] = table[key]["peer"] / table[key]["ours"] if options.python else None
    return table


def show(options, tables):
    print(f"a rank of {options.ranks} is killed, a checkpoint every {INTERVAL} steps: seconds until there is\n")
    print(f"{'':24} {'lockstep':>9} {'torchrun':>9} {'ratio':>6}")
    for table in tables:
        for key, title in (("first", "the first step after it"), ("new", "the first new step")):
            sides = table[key]
            theirs = (f"{sides['peer']:9.2f} {sides['ratio']:6.2f}" if "peer" in sides else f"{'-':>9} {'-':>6}")
            print(f"{title:24} {sides['ours']:9.2f} {theirs}")
        if table["torchrun_repeated"]:
            print(f"torchrun did not come back within {LIMIT_SECONDS} s, and was started again, {table['torchrun_repeated']} times")
    print(f"\nMedians of {options.rounds} interleaved rounds, each rank in turn; both with --max-restarts 5. New: not made\n"
          "before the kill, so steps since the checkpoint are made again.\n")
