"""Starts real `lockstep run` jobs for tests and finds what they leave behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))


def wait_for(condition, seconds=10.0, what="condition"):
    """Polls until `condition` holds and returns its value; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not hold within {seconds} s"
        time.sleep(0.005)


def state_of(pid):
    """The state letter of a process: R, S, T (stopped), Z (ended), ..."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def stop(pid):
    """Returns when the process stands still; before, it would still obey a signal that comes after this one."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state_of(pid) == "T", what="a stopped process")


class Launcher:
    """Starts `lockstep run`; everything it starts carries a mark in its environment."""

    def __init__(self, folder):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.mark = f"LOCKSTEP_TEST_MARK={uuid.uuid4()}"
        self.jobs = []

    def environment(self, extra=None):
        names = ("PET_", "TORCHELASTIC_", "OMP_NUM_THREADS", "MASTER_", "LOCKSTEP_TEST_MARK",
                 "SLURM_", "PBS_", "OMPI_COMM_", "PMI_", "PMIX_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        environment["TMPDIR"] = str(self.temporary)
        environment["VIRTUAL_ENV"] = str(pathlib.Path(sys.executable).parents[1])
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder / "inductor")
        environment.update(extra or {})
        environment.update([self.mark.split("=")])
        return environment

    def command(self, *arguments, prefix=()):
        return [*map(str, prefix), str(BIN / "lockstep"), "run", *map(str, arguments)]

    def start(self, *arguments, env=None, prefix=(), **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("text", True)
        options.setdefault("cwd", self.folder)
        job = subprocess.Popen(
            self.command(*arguments, prefix=prefix), env=self.environment(env), **options
        )
        self.jobs.append(job)
        return job

    def run(self, *arguments, timeout=60, **options):
        job = self.start(*arguments, **options)
        out, err = job.communicate(timeout=timeout)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def script(self, text, name="worker.py"):
        path = self.folder / name
        path.write_text(text)
        return path

    def marked(self):
        """Living processes that descend from this launcher, by {pid: command}."""
        found = {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.mark.encode() not in pathlib.Path(entry.path, "environ").read_bytes():
                    continue
                if state_of(entry.name) != "Z":
                    command = pathlib.Path(entry.path, "cmdline").read_bytes()
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode()
            except OSError:
                pass
        return found

    def agent_of(self, job):
        """The pid of the inner process of a started job."""

        def look():
            path = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
            children = path.read_text().split()
            return children and int(children[0])

        return wait_for(look, what="an agent")

    def up(self, count, name="up*"):
        """Waits until `count` workers have made their files; returns them sorted."""
        wait_for(lambda: len(list(self.folder.glob(name))) >= count, 20, f"{count} workers")
        return sorted(self.folder.glob(name))

    def assert_clean(self, within=2.0):
        wait_for(lambda: not self.marked(), within, "no process is left")
        assert list(self.temporary.iterdir()) == []

    def cleanup(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for job in self.jobs:
            job.kill()
            job.wait()
