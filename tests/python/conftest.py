"""Starts Python ranks that use the package from the build tree, which is on PYTHONPATH."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from forked_python import ForkedPython  # noqa: E402
from job_launcher import ROOT, Launcher  # noqa: E402, F401

LIMIT = 120


@pytest.fixture
def launcher(tmp_path):
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.cleanup()


@pytest.fixture(scope="session")
def python():
    forked = ForkedPython()
    yield forked
    forked.close()


class Ranks:
    """Processes without a launcher that meet in a file: nobody ends them when one of them dies."""

    def __init__(self, python, launcher, script, count=2):
        path = launcher.script(script)
        folder = launcher.folder
        environment = launcher.environment({"WORLD_SIZE": str(count), "INIT_METHOD": f"file://{folder}/meeting"})
        self.processes = [python.start(path, {**environment, "RANK": str(rank)}, folder) for rank in range(count)]
        launcher.jobs += self.processes

    def finish(self):
        """(exit code, stdout, stderr) of each rank."""
        ended = []
        for process in self.processes:
            out, err = process.communicate(timeout=LIMIT)
            ended.append((process.returncode, out, err))
        return ended


@pytest.fixture
def ranks(python, launcher):
    return lambda script, count=2: Ranks(python, launcher, script, count)


# True for torch before 2.14, which finds no backend by its entry point and lets Gloo alone have a monitored_barrier().
OLD_TORCH = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)
REGISTER = "import lockstep\n" if OLD_TORCH else ""
INIT = REGISTER + """
import os, sys, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("lockstep", init_method=os.environ["INIT_METHOD"], rank=int(os.environ["RANK"]),
                        world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=60))
rank = dist.get_rank()
"""
