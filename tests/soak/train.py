#!/usr/bin/env python3
"""Kills training with kill -9 at random moments and resumes it: it must end as if nothing had happened.

    train.py [KILLS] [RESTARTED] [SEED]    50 kills and 5 runs unless said; the seed is printed

Two ranks train on images that are made up here, with a checkpoint every 20 steps. In turn a rank, the
launcher, its agent, or every process of the job is killed; the same command resumes the run. A run that
ends is compared with one that nobody disturbed: weights, optimizer, losses and metrics, to the bit.
Then RESTARTED runs with --max-restarts lose a rank three times each, and must end by themselves.
"""

import collections
import csv
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
MARK = ("LOCKSTEP_SOAK_MARK", str(uuid.uuid4()))
VICTIMS = ("rank 0", "rank 1", "launcher", "agent", "all")
TIMES = {"samples_per_second", "data_wait", "communication_wait"}  # Differ from run to run.
GONE_WITHIN = 2.0  # Seconds after a kill.


def write_idx(path, sizes, data):
    path.write_bytes(struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes) + data)


def make_images(folder):
    """MNIST-style files: noise, brighter where the class says. Some labels are wrong, so losses stay."""
    generator = random.Random(1)
    for name, count in (("train", 3840), ("t10k", 400)):
        labels = [generator.randrange(10) for _ in range(count)]
        images = bytearray(generator.randbytes(count * 784))
        for i, label in enumerate(labels):
            begin = i * 784 + (label if i % 4 else generator.randrange(10)) * 56
            images[begin:begin + 56] = bytes(160 + value // 4 for value in images[begin:begin + 56])
        write_idx(folder / f"{name}-images-idx3-ubyte", (count, 28, 28), bytes(images))
        write_idx(folder / f"{name}-labels-idx1-ubyte", (count,), bytes(labels))


def start(data, output, *flags):
    command = [BIN / "lockstep", "train", data, "--model", "convnet", "--nproc", "2", "--epochs", "3",
               "--batch-size", "32", "--checkpoint-interval", "20", "--log-interval", "7",
               "--mixup", "0.2", "--model-ema", "--model-ema-decay", "0.99", "--warmup-epochs", "0.5",
               "--output", output, *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", MARK[0]: MARK[1]}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def job_processes():
    """{pid: environment} of living processes of this script's job."""
    mark = "=".join(MARK)
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if pathlib.Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                continue
            variables = pathlib.Path(entry.path, "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if mark in variables:
            found[int(entry.name)] = variables
    return found


def find(victim, job, variable=""):
    """The processes to kill; none if the job is not so far, or has ended. Of ranks those with this variable."""
    if victim == "launcher":
        return [job.pid]
    processes = job_processes()
    if victim == "all":
        return list(processes)
    if victim == "agent":
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
        return [int(pid) for pid in children.read_text().split()] if children.exists() else []
    rank = victim.replace("rank ", "RANK=")
    return [pid for pid, variables in processes.items() if {rank, variable} <= {*variables, ""}]


def kill(victim, job):
    """True if something was killed while the job ran."""
    pids = find(victim, job) if job.poll() is None else []
    return any([kill_one(pid) for pid in pids])


def kill_one(pid):
    """False if it has ended already."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def scalars(run):
    """[(tag, step, value)] of all event files, in the order of their steps."""
    found = []
    for path in sorted(run.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
                found.append((value.tag, event.step, number))
    return sorted(found, key=lambda entry: (entry[1], entry[0]))


def metrics(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


def summary(run):
    return list(csv.DictReader((run / "summary.csv").read_text().splitlines()))


def differences(ours, expected, where):
    """What two checkpoints, as torch.load gives them, have different."""
    if isinstance(expected, torch.Tensor):
        same = isinstance(ours, torch.Tensor) and torch.equal(ours, expected)
        return [] if same else [where]
    if isinstance(expected, dict):
        # A job that may be restarted leaves its name.
        if not isinstance(ours, dict) or ours.keys() - {"job"} != expected.keys() - {"job"}:
            return [f"{where}: other keys"]
        return [line for key in expected for line in differences(ours[key], expected[key], f"{where}.{key}")]
    if isinstance(expected, (list, tuple)):
        if len(ours) != len(expected):
            return [f"{where}: {len(ours)} entries, expected {len(expected)}"]
        return [line for i, pair in enumerate(zip(ours, expected)) for line in differences(*pair, f"{where}[{i}]")]
    return [] if ours == expected else [f"{where}: {ours!r}, expected {expected!r}"]


def compare(run, reference):
    """What is not as in the run that nobody disturbed."""
    faults = []
    for name in ("last.pt", "best.pt"):
        ours, expected = (torch.load(path / "checkpoints" / name, weights_only=True) for path in (run, reference))
        faults += differences(ours, expected, name)
    for read in (metrics, summary, scalars):
        ours, expected = read(run), read(reference)
        if ours != expected:
            same = [pair[0] == pair[1] for pair in zip(ours, expected)]
            first = same.index(False) if False in same else len(same)
            faults.append(f"{read.__name__}: {len(ours)} entries, expected {len(expected)}; "
                          f"the first that differs: {ours[first:first + 1]}, expected {expected[first:first + 1]}")
    twice = [key for key, count in collections.Counter(entry[:2] for entry in scalars(run)).items() if count > 1]
    if twice:
        faults.append(f"events: more than once: {twice[:5]}")
    faults += [f"left behind: {path}" for path in run.rglob(".*")]
    return faults


def wait_until_gone():
    """Seconds from now until no process of the job is left."""
    begin = time.monotonic()
    while processes := job_processes():
        if time.monotonic() - begin > 10:
            sys.exit(f"train: still there 10 s after what was to end them: {list(processes)}")
        time.sleep(0.02)
    return time.monotonic() - begin


def finish(job, what):
    text = job.communicate(timeout=300)[0]
    if job.returncode != 0:
        sys.exit(f"train: {what} ended with {job.returncode}:\n{text[-3000:]}")
    return text


def only_run(output):
    runs = list(output.iterdir())
    if len(runs) != 1:
        sys.exit(f"train: {sorted(path.name for path in runs)} in '{output}', expected one run: it was not resumed")
    return runs[0]


class Soak:
    def __init__(self, folder, generator):
        self.folder = folder
        self.generator = generator
        self.data = folder / "images"
        self.data.mkdir()
        make_images(self.data)
        begin = time.monotonic()
        text = finish(start(self.data, folder / "undisturbed"), "the undisturbed run")
        if "is slow" in text:
            sys.exit(f"train: a rank of the undisturbed run was called slow:\n{text}")
        self.seconds = time.monotonic() - begin
        self.reference = only_run(folder / "undisturbed")
        self.kills = collections.Counter()
        self.runs = 0
        self.slowest = 0.0

    def one_run(self, wanted):
        """Kills and resumes one run until it has ended, or `wanted` kills are done; then lets it end."""
        output = self.folder / f"run{self.runs}"
        kills = 0
        while True:
            job = start(self.data, output)
            if kills == wanted:
                finish(job, f"a run that was killed {kills} times")
                break
            victim = VICTIMS[sum(self.kills.values()) % len(VICTIMS)]
            try:
                job.wait(self.generator.uniform(0, self.seconds))
            except subprocess.TimeoutExpired:
                if kill(victim, job):
                    self.kills[victim] += 1
                    kills += 1
                else:  # It has no such process yet.
                    job.kill()
                self.slowest = max(self.slowest, wait_until_gone())
                job.communicate()
                if list(output.glob("*/finished")):  # It came too late: the same command starts a new run.
                    break
                continue
            finish(job, f"a run that was killed {kills} times")
            break
        self.runs += 1
        faults = compare(only_run(output), self.reference)
        if faults:
            sys.exit(f"train: after {kills} kills {len(faults)} differences:\n  " + "\n  ".join(faults[:20]))


    def one_restarted_run(self):
        """Kills a rank of one command three times; seconds from each kill to a line of the new ranks."""
        output = self.folder / f"run{self.runs}"
        job = start(self.data, output, "--max-restarts", "5")
        lines = []
        reader = threading.Thread(target=lambda: lines.extend((time.monotonic(), line) for line in job.stdout))
        reader.start()
        kills = []
        while len(kills) < 3 and job.poll() is None:
            # Ranks of this attempt: those left of the one before are about to end.
            victims = find(f"rank {self.generator.randrange(2)}", job, f"TORCHELASTIC_RESTART_COUNT={len(kills)}")
            if victims:
                time.sleep(self.generator.uniform(0, self.seconds / 4))
                kills += [time.monotonic()] if kill_one(victims[0]) else []
            time.sleep(0.02)
        job.wait(timeout=300)
        reader.join()
        text = "".join(line for _, line in lines)
        restarts = [at for at, line in lines if "restarting all workers" in line]
        if job.returncode != 0 or len(restarts) != 3 or len(kills) != 3:
            sys.exit(f"train: it ended with {job.returncode} after {len(kills)} kills and {len(restarts)} restarts, "
                     f"expected 0, 3 and 3:\n{text[-3000:]}")
        self.runs += 1
        if faults := compare(only_run(output), self.reference):
            sys.exit(f"train: after three restarts {len(faults)} differences:\n  " + "\n  ".join(faults[:20]))
        progress = [at for at, line in lines if line.startswith("epoch ")]
        return [next(at for at in progress if at > restart) - kill for kill, restart in zip(kills, restarts)
                if progress[-1] > restart]


def main(kills=50, restarted=5, seed=None):
    seed = random.randrange(1 << 30) if seed is None else seed
    print(f"train: seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lockstep_soak_") as folder:
        soak = Soak(pathlib.Path(folder), random.Random(seed))
        while (done := sum(soak.kills.values())) < kills:
            soak.one_run(kills - done)
        print(f"train: {sum(soak.kills.values())} kills ({dict(soak.kills)}) in {soak.runs} runs of "
              f"{soak.seconds:.1f} s, all gone after {soak.slowest:.2f} s at most; "
              "every run ended with the weights, losses and metrics of the undisturbed one")
        lost = [seconds for _ in range(restarted) for seconds in soak.one_restarted_run()]
        if lost:
            print(f"train: {restarted} runs with three restarts each ended as the undisturbed one; from a kill to the "
                  f"first line of the new ranks {sum(lost) / len(lost):.1f} s, at most {max(lost):.1f} s")
        if soak.slowest > GONE_WITHIN:
            sys.exit(f"train: expected all gone within {GONE_WITHIN} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
