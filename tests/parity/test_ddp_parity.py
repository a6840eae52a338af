"""Losses, weights, gradients and buffers of DistributedDataParallel are PyTorch's, bit for bit."""

import alone
import pytest
from ddp_cases import CASES
from jobs import CPP, PYTHON, assert_same_on_all

# Cases that alone.py can compute.
PLAIN = ["mlp", "convnet", "mixed", "frozen", "two_buckets"]
PLAIN += ["broad", "broad_mixed", "broad_frozen", "broad_recomputed"]
# Cases in which gradients are allocated in their buckets over shared memory, and the part of them that is still copied.
IN_BUCKETS = ["broad", "broad_static", "broad_shared", "broad_mixed", "broad_frozen", "broad_recomputed"]
IN_BUCKETS = dict.fromkeys([*IN_BUCKETS, "broad_small_cap", "broad_ignored", "broad_two_forwards"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["hook_fp16_wrapper", "hook_static", "hook_power_sgd_broad", "hook_local_broad"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["join_broad", "join_active_broad", "join_bf16_broad"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["broad_threads", "broad_channels_last", "broad_evaluate"], 2 / 3)


def of_worlds(worlds):
    """All (world size, case) that are run; jobs with the same world size follow each other."""
    chosen = [(world, name) for world in worlds for name in CASES if world <= CASES[name].largest_world]
    return pytest.mark.parametrize("world, name", chosen)


@of_worlds([1, 2, 3, 4])
def test_over_gloo(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs([CPP] * world, "gloo")
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([2])
def test_over_shared_memory_two_ranks_are_as_over_gloo(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs([CPP] * world, "shm")
    assert_same_on_all(name, CASES[name], world, expected, found)


@pytest.mark.parametrize("name", [name for name in IN_BUCKETS if name in CASES])
def test_over_shared_memory_large_gradients_are_not_copied(jobs, name):
    lines = (jobs.outputs([CPP] * 2, "shm") / "copied.0").read_text().splitlines()
    copied, total = {line.split()[0]: map(int, line.split()[1:]) for line in lines}[name]
    assert copied < total * IN_BUCKETS[name]


@of_worlds([3, 4])
def test_over_shared_memory_more_ranks_sum_in_their_order(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "rank_order")
    found = jobs.outputs([CPP] * world, "shm")
    assert_same_on_all(name, CASES[name], world, expected, found)


@pytest.mark.parametrize("world", [3, 4])
@pytest.mark.parametrize("name", PLAIN)
def test_over_shared_memory_is_as_one_process_computes_it(jobs, world, name):
    expected = alone.train(CASES[name], world, jobs.inputs)
    found = jobs.outputs([CPP] * world, "shm")
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([2])
@pytest.mark.parametrize("programs", [[PYTHON, CPP], [CPP, PYTHON]], ids=["python_first", "cpp_first"])
def test_a_python_and_a_cpp_rank_train_together(jobs, programs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs(programs, "gloo")
    assert_same_on_all(name, CASES[name], world, expected, found)
