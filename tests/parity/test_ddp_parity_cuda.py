"""On a GPU, with deterministic algorithms, training is PyTorch's bit for bit as well: one rank over NCCL."""

import pytest
from ddp_cases import CASES
from jobs import CPP, PYTHON, assert_same

# NCCL sums no sparse tensors, and PyTorch 2.11 refuses a second forward before backward where there are
# buffers (pytorch/pytorch#175024).
NAMES = [name for name in CASES if name not in ("sparse", "sparse_views", "two_forwards")]


@pytest.mark.parametrize("name", NAMES)
def test_over_nccl(jobs, name):
    expected = jobs.outputs([PYTHON], "nccl", NAMES)
    found = jobs.outputs([CPP], "nccl", NAMES)
    assert_same(name, CASES[name], 0, expected, found)
