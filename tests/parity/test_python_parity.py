"""PyTorch's own DistributedDataParallel over the backend, alone and beside C++ ranks, bit for bit."""

from jobs import PYTHON, assert_same_on_all
from test_ddp_parity import CASES, mixed_pairs, mixes, names_of, of_worlds


@of_worlds([2])
def test_python_over_lockstep_is_as_over_gloo(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs([PYTHON] * world, "lockstep")
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([3])
def test_python_over_lockstep_sums_in_the_order_of_ranks(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "rank_order", names_of(world, name))
    found = jobs.outputs([PYTHON] * world, "lockstep", names_of(world, name))
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([2], mixes)
@mixed_pairs
def test_python_and_cpp_ranks_share_memory(jobs, programs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs(programs, "lockstep", [name for name in CASES if mixes(CASES[name])])
    assert_same_on_all(name, CASES[name], world, expected, found)
