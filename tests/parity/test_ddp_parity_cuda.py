"""On a GPU, with deterministic algorithms, training is PyTorch's bit for bit as well: one rank over NCCL, and two
ranks that share the GPU over shared memory, where PyTorch takes Gloo. The sum of two has one order."""

import pytest
from ddp_cases import CASES
from jobs import CPP, PYTHON, assert_same_on_all

# NCCL sums no sparse tensors, and PyTorch 2.11 refuses a second forward before backward where there are
# buffers (pytorch/pytorch#175024).
NAMES = [name for name in CASES if name not in ("sparse", "sparse_views", "two_forwards")]
# PyTorch keeps delayed gradients on the CPU, unless it is told a device.
NAMES = [name for name in NAMES if not CASES[name].delayed]
# Steps on a GPU are fused, with other bits than PyTorch's loop; tests/train/optim has theirs.
NAMES = [name for name in NAMES if not (CASES[name].zero or CASES[name].in_backward)]


@pytest.mark.parametrize("name", NAMES)
def test_over_nccl(gpu_jobs, name):
    expected = gpu_jobs.outputs([PYTHON], "nccl", NAMES)
    found = gpu_jobs.outputs([CPP], "nccl", NAMES)
    assert_same_on_all(name, CASES[name], 1, expected, found)


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_on_one_gpu(gpu_jobs, name):
    expected = gpu_jobs.outputs([PYTHON] * 2, "gloo", NAMES)
    found = gpu_jobs.outputs([CPP] * 2, "shm", NAMES)
    assert_same_on_all(name, CASES[name], 2, expected, found)
