"""Inputs and a launcher for all parity tests; both go when the last one has run."""

import pathlib
import shutil
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import models  # noqa: E402
import tensor_file  # noqa: E402
from ddp_cases import LEFT_OUT  # noqa: E402
from job_launcher import Launcher  # noqa: E402
from jobs import Jobs  # noqa: E402


def jobs_on(device, tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("parity")
    inputs = folder / "inputs"
    inputs.mkdir()
    for model in models.SHAPES:
        tensor_file.write(inputs / model.__name__, models.generate(model))
    launcher = Launcher(folder)
    yield Jobs(launcher, inputs, device)
    launcher.cleanup()
    shutil.rmtree(folder)


def pytest_terminal_summary(terminalreporter):
    for name, why in LEFT_OUT.items():
        terminalreporter.write_line(f"parity case {name} was not run with torch {torch.__version__}: {why}")


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    yield from jobs_on("cpu", tmp_path_factory)


@pytest.fixture(scope="session")
def gpu_jobs(tmp_path_factory):
    yield from jobs_on("cuda", tmp_path_factory)
