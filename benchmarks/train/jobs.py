"""Starts `lockstep train` and its peer for `lockstep bench train`, and ends what it started."""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_SECONDS = 1800
STARTERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "PET_", "TORCHELASTIC_", "SLURM_", "PBS_", "OMPI_", "PMI")


def fail(text):
    raise SystemExit(f"lockstep bench train: {text}")


def environment(threads):
    """Without a launcher's variables, on the CPU, the same number of threads for both sides."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STARTERS)}
    return {**kept, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}


class Job:
    """A program that runs: its end, its wall, user and system seconds, and what it printed."""

    def __init__(self, command, env, out=subprocess.PIPE):
        self.command = [*map(str, command)]
        self.errors = tempfile.TemporaryFile("w+")
        self.began = time.monotonic()
        self.process = subprocess.Popen(self.command, env=env, stdout=out, stderr=self.errors, text=True,
                                        stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Leaves nothing behind, whatever happened."""
        for number, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, None)):
            if self.process.returncode is None and self._wait(seconds, then=number) is None:
                continue
            break
        if self.process.stdout:
            self.process.stdout.close()
        self.errors.close()

    def _wait(self, seconds, then=None):
        """The rusage of the program and of all that it waited for; none if it is still there."""
        if then:
            self.process.send_signal(then)
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return usage
            if end and time.monotonic() > end:
                return None
            time.sleep(0.005)

    def finish(self):
        out = self.process.stdout.read() if self.process.stdout else ""
        usage = self._wait(LIMIT_SECONDS)
        wall = time.monotonic() - self.began
        if usage is None or self.process.returncode != 0:
            fail(f"'{' '.join(self.command)}' " + (f"took longer than {LIMIT_SECONDS} s" if usage is None else
                                                  f"ended with {self.process.returncode}") + self.last_words())
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return {**(json.loads(lines[-1]) if lines else {}),
                "wall": wall, "user": usage.ru_utime, "sys": usage.ru_stime}

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().splitlines()
        return "\n" + "\n".join(lines[-15:]) if lines else ""


def ours(options, data, *flags):
    """Every run has a folder of its own, so none goes on with another."""
    output = tempfile.mkdtemp(prefix="runs", dir=options.folder)
    return [options.bin / "lockstep", "train", data, "--output", output, *flags]


def peer(options, data, *flags, launcher=(), ranks=None):
    return [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks or options.ranks, *launcher,
            HERE.parent / "peers" / "train.py", data, *flags]


def run(command, env):
    with Job(command, env) as job:
        return job.finish()


def in_turns(contenders, rounds):
    """Calls each in every round, the next round in the opposite order; a list of results for each name."""
    results = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(contenders) if number % 2 == 0 else reversed(contenders):
            results[name].append(contenders[name](number))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)
