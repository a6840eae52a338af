"""Runs the twins as jobs, each kind of job once, and compares what their ranks leave."""

import os
import pathlib
import shlex
import subprocess
import sys

import torch

import tensor_file
from ddp_cases import CASES
from job_launcher import BIN

PYTHON = [sys.executable, str(pathlib.Path(__file__).with_name("ddp_cases.py"))]
CPP = [str(BIN / "ddp_cases")]
SECONDS = 300  # For a job; a hang is an error.
ENVIRONMENT = {
    "cuda": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},  # What cuBLAS asks for to be deterministic.
    "cpu": {"CUDA_VISIBLE_DEVICES": ""},  # PyTorch's PowerSGD waits for a GPU wherever there is one.
}


def environment(backends, device):
    """PyTorch looks for backends among all packages; where ours takes no part, it is none of them."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    package = os.environ.get("LOCKSTEP_PYTHON_PACKAGE") if backends != "lockstep" else None
    return {**ENVIRONMENT[device], "PYTHONPATH": os.pathsep.join(path for path in paths if path != package)}


class Jobs:
    """outputs() is where the ranks of a job left their files."""

    def __init__(self, launcher, inputs, device="cpu"):
        self.launcher = launcher
        self.inputs = inputs
        self.device = device
        self.done = {}

    def outputs(self, programs, backend, names=()):
        """programs[i] is that of rank i; without names, all cases that this PyTorch can run with as many ranks."""
        world = len(programs)
        pure = programs == [PYTHON] * world and backend in ("gloo", "rank_order") and self.device == "cpu"
        together = "gloo,rank_order" if pure and world > 2 else backend
        key = (together, *(program[0] for program in programs), *names)
        if key not in self.done:
            self.done[key] = self.run(programs, together, names)
        folder, error = self.done[key]
        assert not error, error
        return folder / backend

    def run(self, programs, backends, names):
        folder = self.launcher.folder / f"{self.device}{len(self.done)}"
        for backend in backends.split(","):
            (folder / backend).mkdir(parents=True)
        lines = [f'{rank}) exec {shlex.join(program)} "$@" ;;' for rank, program in enumerate(programs)]
        choice = "\n".join(['case "$RANK" in', *lines, "esac\n"])
        script = self.launcher.script(choice, folder.name + ".sh")
        names = names or [name for name in CASES if len(programs) <= CASES[name].largest_world]
        arguments = ["/bin/sh", script, backends, self.device, self.inputs, folder, *names]
        try:
            job = self.launcher.run(
                "--nproc-per-node", len(programs), *arguments, timeout=SECONDS, env=environment(backends, self.device)
            )
        except subprocess.TimeoutExpired:
            return folder, f"{programs} over {backends} did not end within {SECONDS} s"
        return folder, f"exit code {job.returncode}\n{job.stderr}" if job.returncode else ""


def bits(tensor):
    same_size = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(same_size[tensor.element_size()]).flatten()


def difference(expected, found):
    """The first one between two files' tensors, in the order in which they were made; else empty."""
    if missing := expected.keys() ^ found.keys():
        return f"only one side has {sorted(missing)}"
    for name, tensor in expected.items():
        other = found[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
            return f"{name}: {other.dtype} {list(other.shape)}, expected {tensor.dtype} {list(tensor.shape)}"
        differing = (bits(tensor) != bits(other)).nonzero().flatten()
        if len(differing):
            i = differing[0].item()
            return (
                f"{name}: {len(differing)} of {tensor.numel()} elements differ, the first is [{i}]: "
                f"{other.flatten()[i].item()!r}, expected {tensor.flatten()[i].item()!r}"
            )
    return ""


def assert_same(name, case, rank, expected, found):
    """`expected` are tensors or the folder where they are, `found` is such a folder."""
    if not isinstance(expected, dict):
        expected = tensor_file.read(expected / f"{name}.{rank}")
    losses = [key for key in expected if key.startswith("loss.")]
    assert case.throws or len(losses) == case.steps_of(rank) * case.passes
    path = found / f"{name}.{rank}"
    assert os.path.exists(path), f"rank {rank} left nothing"
    text = difference(expected, tensor_file.read(path))
    assert not text, f"rank {rank}: {text}"


def assert_same_on_all(name, case, world, expected, found):
    """`expected` is a folder, or has one entry of tensors for each rank."""
    for rank in range(world):
        assert_same(name, case, rank, expected[rank] if isinstance(expected, (list, dict)) else expected, found)
