#!/usr/bin/env python3
"""`lockstep bench python`: the backend as Python programs use it, with and without the arena, beside Gloo.

torch.distributed.all_reduce, and steps of PyTorch's own DistributedDataParallel. Every contender is a job of ranks on
this machine that starts once and takes its turns with the others. "arena" is LOCKSTEP_ARENA=1.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ORDER_BYTES = 48  # As in benchmarks/orders.h.
CONTENDERS = {"arena": ("lockstep", "1"), "lockstep": ("lockstep", "0"), "gloo": ("gloo", "0")}
# Gloo adds along a ring: with more than two ranks the last bits differ.
TOLERANCE = 1e-4


class Job:
    """The ranks of one contender, told what to do through a pipe: see benchmarks/orders.h."""

    def __init__(self, name, options, folder, script, arguments):
        self.name, self.size = name, options.ranks
        backend, arena = CONTENDERS[name]
        pipe = pathlib.Path(folder) / f"orders-{script}-{name}"
        os.mkfifo(pipe)
        package = options.bin.parent / "python" / "package"
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
        command = [options.bin / "lockstep", "run", "--nproc-per-node", options.ranks, sys.executable,
                   HERE / "peers" / script, backend, pipe, *arguments]
        self.launcher = subprocess.Popen(list(map(str, command)), text=True, stdout=subprocess.PIPE,
                                         env={**os.environ, "PYTHONPATH": path, "LOCKSTEP_ARENA": arena})
        self.pipe = os.open(pipe, os.O_RDWR)  # Does not wait for ranks that never come.

    def tell(self, order):
        for _ in range(self.size):
            os.write(self.pipe, f"{order:<{ORDER_BYTES - 1}}\n".encode())
        answer = self.launcher.stdout.readline()
        if not answer:
            raise SystemExit(f"lockstep bench python: {self.name} ended; see above")
        answer = json.loads(answer)
        if "missing" in answer:
            raise SystemExit(f"lockstep bench python: {answer['missing']}; install it, or choose other --models")
        return answer

    def end(self):
        os.close(self.pipe)
        try:
            self.launcher.wait(20)
        except subprocess.TimeoutExpired:
            self.launcher.terminate()
            self.launcher.wait()


@contextlib.contextmanager
def started(options, folder, script, *arguments):
    jobs = []
    try:
        for name in CONTENDERS:
            jobs.append(Job(name, options, folder, script, arguments))
        yield jobs
    finally:
        for job in jobs:
            job.end()


def medians(options, jobs, order):
    """Milliseconds: a median of each round, by contender."""
    rounds = {job.name: [] for job in jobs}
    for number in range(options.rounds):
        for job in jobs if number % 2 == 0 else jobs[::-1]:
            rounds[job.name].append(1e3 * statistics.median(job.tell(order)["seconds"]))
    return rounds


def measure_allreduce(options, folder):
    with started(options, folder, "allreduce.py") as jobs:
        for size in options.sizes:
            for job in jobs:
                job.tell(f"{size} 5")
            repetitions = 200 if size < 1 << 20 else 20
            yield {"what": f"all_reduce of {text_of(size)}", "ms": medians(options, jobs, f"{size} {repetitions}")}


def measure_step(options, folder, model):
    os.mkdir(folder := os.path.join(folder, model))
    with started(options, folder, "step.py", model, options.batch_size, "cpu") as jobs:
        losses = {job.name: job.tell("check 3")["losses"] for job in jobs}
        for name, values in losses.items():
            if not all(abs(a - b) <= TOLERANCE * max(1, abs(b)) for a, b in zip(values, losses["gloo"], strict=True)):
                raise SystemExit(f"lockstep bench python: the losses of {name} are {values}, of gloo {losses['gloo']}")
        yield {"what": f"step of {model}, batch of {options.batch_size}", "ms": medians(options, jobs, f"time 1 {options.steps}")}


def text_of(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def show(row):
    cells = []
    for name, values in row["ms"].items():
        ratios = sorted(gloo / ours for gloo, ours in zip(row["ms"]["gloo"], values))
        cells.append(f"{statistics.median(values):10.3f} {statistics.median(ratios):6.2f} ({ratios[0]:.1f} to {ratios[-1]:.1f})")
    print(f"{row['what']:32}" + "".join(f"{cell:>32}" for cell in cells), flush=True)


def sizes(text):
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = [re.fullmatch(r"(\d+)([KMG]?)", size) for size in text.split(",")]
    numbers = [int(match[1]) * units[match[2]] for match in found if match]
    if len(numbers) < len(found) or any(number < 4 or number % 4 for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of multiples of 4, as 1K,25M")
    return numbers


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return int(text)


def parse():
    parser = argparse.ArgumentParser(prog="lockstep bench python", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--ranks", type=positive, default=2)
    parser.add_argument("--sizes", type=sizes, default=[1 << 10, 25 << 20], help="bytes of the tensors that are summed; 1K,25M")
    parser.add_argument("--models", default="mlp,resnet18", help="of the steps, of mlp, convnet and resnet18; '' leaves them out")
    parser.add_argument("--batch-size", type=positive, default=32, help="of each rank")
    parser.add_argument("--steps", type=positive, default=5, help="in a turn")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each contender; medians are shown")
    parser.add_argument("--json", action="store_true", help="one object per row, with the median of each round")
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build" / "bin", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    for number in (signal.SIGTERM, signal.SIGHUP):  # Nothing is left behind.
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    if not options.json:
        print(f"{options.ranks} ranks, {len(os.sched_getaffinity(0))} cores, medians of {options.rounds} rounds: ms, and Gloo's time "
              f"divided by it (least to most)\n\n{'':32}{'lockstep in the arena':>32}{'lockstep':>32}{'gloo':>32}")
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        tables = [measure_allreduce(options, folder)]
        tables += [measure_step(options, folder, model) for model in filter(None, options.models.split(","))]
        for table in tables:
            for row in table:
                if options.json:
                    print(json.dumps({"bench": "python", "ranks": options.ranks, "cores": len(os.sched_getaffinity(0)),
                                      "arch": os.uname().machine, **row}), flush=True)
                else:
                    show(row)


main()
