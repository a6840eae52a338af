"""Small training runs for tests: data that is made, `lockstep train` on it, and what it leaves."""

import csv
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_launcher import BIN, state_of, stop  # noqa: E402

STARTERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "PET_", "TORCHELASTIC_", "SLURM_", "PBS_", "OMPI_", "PMI")
NO_TIMES = ("samples_per_second", "data_wait", "communication_wait", "gpu_utilization", "gpu_memory_bytes", "gpu_watts")

THIRDS = bytes(value // 3 for value in range(256))


def write_idx(folder, train=640, test=100, side=28, seed=0):
    """MNIST-like files: a class is a bright column among noise, so it can be learned."""
    noise = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("t10k", test)):
        labels = bytes(noise.randrange(10) for _ in range(count))
        images = bytearray(noise.randbytes(count * side * side).translate(THIRDS))
        for i, label in enumerate(labels):
            for row in range(side):
                at = (i * side + row) * side
                images[at + 2 * label:at + 2 * label + 2] = b"\xff\xff"
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, side, side) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels)
    return folder


def environment(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(STARTERS)}
    env.update({"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    env.update(extra or {})
    return env


def command(*arguments):
    return [str(BIN / "lockstep"), "train", *map(str, arguments)]


def start(folder, *arguments, env=None, program=None, **options):
    """`lockstep train`, or another program with its arguments."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    line = [str(program), *map(str, arguments)] if program else command(*arguments)
    return subprocess.Popen(line, cwd=folder, env=environment(env), text=True, **options)


def train(folder, *arguments, env=None, code=0, timeout=120):
    """Runs it to its end; returns the finished process."""
    job = start(folder, *arguments, env=env)
    try:
        out, err = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.kill()  # Its ranks end with it.
        out, err = job.communicate()
        raise AssertionError(f"not at its end after {timeout} s\n{out}\n{err}") from None
    assert job.returncode == code, f"exit code {job.returncode}\n{out}\n{err}"
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def metrics(run):
    lines = (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in NO_TIMES} for line in lines]


def losses(run):
    return [line["loss"] for line in metrics(run) if "loss" in line]


def summary(run):
    return list(csv.DictReader((pathlib.Path(run) / "summary.csv").open()))


def checkpoint(run, name="last"):
    import torch

    return torch.load(pathlib.Path(run) / "checkpoints" / f"{name}.pt", map_location="cpu", weights_only=True)


def weights(run, name="last"):
    return {key: value.numpy().tobytes() for key, value in checkpoint(run, name)["model"].items()}


def ranks(folder):
    """Pids of the job's ranks by their numbers."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                for line in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if line.startswith(b"RANK="):
                        found[int(line[5:])] = int(pid)
        except OSError:
            pass
    return found


def stop_rank(folder, rank):
    """Returns the pid of the rank, which stands still, when the other ranks wait for it.

    What it had sent before could still let them go on for a moment, up to the end of the job."""
    pids = ranks(folder)
    stop(pids[rank])
    for other in set(pids.values()) - {pids[rank]}:
        sleeps = 0
        end = time.monotonic() + 30
        while sleeps < 30:  # A rank that only lacks a core is in the state R.
            sleeps = sleeps + 1 if state_of(other) == "S" else 0
            assert time.monotonic() < end, "the other rank does not wait"
            time.sleep(0.01)
    return pids[rank]


def wait_for_steps(run, steps, job):
    """Until the run has logged so many steps."""
    path = pathlib.Path(run) / "metrics.jsonl"
    while not path.exists() or path.read_text().count("\n") < steps:
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)


def require_same(run, other):
    """The same numbers, bit for bit, in all files of the two runs."""
    assert metrics(run) == metrics(other)
    assert summary(run) == summary(other)
    assert weights(run) == weights(other)
    assert weights(run, "best") == weights(other, "best")
