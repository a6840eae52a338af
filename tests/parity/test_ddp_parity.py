"""Losses, weights, gradients and buffers of DistributedDataParallel are PyTorch's, bit for bit."""

import alone
import pytest
import tensor_file
from ddp_cases import CASES, WHOLE
from jobs import CPP, PYTHON, assert_same_on_all
from marks import also_long

# Cases that alone.py can compute.
PLAIN = ["mlp", "convnet", "mixed", "frozen", "two_buckets"]
PLAIN += ["broad", "broad_mixed", "broad_frozen", "broad_recomputed"]
# Cases in which gradients are allocated in their buckets over shared memory, and the part of them that is still copied.
# Not those with "unused", join_unused_broad among them: their graph changes from step to step, so what is used is copied.
# Not broad_accumulate, where gradients of the pass before are in memory of their own, nor broad_kept_gradients, where they
# stay in their buckets anyway: docs/internals/gradient-memory.md.
IN_BUCKETS = ["broad", "broad_static", "broad_shared", "broad_mixed", "broad_frozen", "broad_recomputed"]
IN_BUCKETS = dict.fromkeys([*IN_BUCKETS, "broad_small_cap", "broad_ignored", "broad_two_forwards"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["hook_fp16_wrapper", "hook_static", "hook_power_sgd_broad", "hook_local_broad"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["hook_bf16_wrapper", "hook_allreduce_broad", "hook_fp16_broad", "hook_noop_views"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["hook_power_sgd_rank_4", "hook_power_sgd_bf16", "delayed_broad", "caps_broad"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["join_broad", "join_active_broad", "join_bf16_broad"], 1 / 2)
IN_BUCKETS |= dict.fromkeys(["zero_broad", "in_backward_broad", "in_backward_hook", "mean_over_samples_broad"], 1 / 2)
IN_BUCKETS["hook_power_sgd_transposed"] = 1 / 2
# Its block's two weights get two gradients in a step; one of them is copied.
IN_BUCKETS["recomputed_static_views"] = 2 / 3
IN_BUCKETS |= dict.fromkeys(["broad_threads", "broad_channels_last", "broad_evaluate", "hook_channels_last"], 2 / 3)
IN_BUCKETS["sync_bn_broad"] = 2 / 3


# A sum of three ranks has more than one order, so some cases of each kind have three ranks, too. For `make test` all of
# them would take too long.
OF_THREE = [*PLAIN, "accumulate_views", "unused", "static_views", "sparse", "caps", "join", "join_broad", "delayed", "zero"]
OF_THREE += ["hook_fp16", "hook_power_sgd_broad", "hook_local_alone", "in_backward"]
OF_THREE = [name for name in OF_THREE if name in CASES]  # An older torch cannot run all.


def of_worlds(worlds, wanted=lambda case: True):
    """All (world size, case) that are run; jobs with the same world size follow each other."""
    names = [name for name in CASES if wanted(CASES[name])]
    chosen = [(world, name) for world in worlds for name in names if world <= CASES[name].largest_world]
    short = [(world, name) for world, name in chosen if world < 3 or names_of(world, name)]
    return pytest.mark.parametrize("world, name", [*short, *also_long(*(pair for pair in chosen if pair not in short))])


def names_of(world, name):
    """The cases with which this one shares a job; all, if these are none."""
    return OF_THREE if world == 3 and name in OF_THREE else ()


# One rank of each kind: whichever is the first broadcasts its weights.
mixed_pairs = pytest.mark.parametrize(
    "programs", [[PYTHON, CPP], *also_long([CPP, PYTHON])], ids=["python_first", "cpp_first"])


def mixes(case):
    """Python and C++ ranks can train together: PyTorch's ZeroRedundancyOptimizer sends in another order."""
    return not case.zero


@of_worlds([1, 2, 3, 4])
def test_over_gloo(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo", names_of(world, name))
    found = jobs.outputs([CPP] * world, "gloo", names_of(world, name))
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([2])
def test_over_shared_memory_two_ranks_are_as_over_gloo(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs([CPP] * world, "shm")
    assert_same_on_all(name, CASES[name], world, expected, found)


@pytest.mark.parametrize("name", [name for name in IN_BUCKETS if name in CASES or name in WHOLE])
def test_over_shared_memory_large_gradients_are_not_copied(jobs, name):
    lines = (jobs.outputs([CPP] * 2, "shm", [*WHOLE] if name in WHOLE else []) / "copied.0").read_text().splitlines()
    copied, total = {line.split()[0]: map(int, line.split()[1:]) for line in lines}[name]
    assert copied < total * IN_BUCKETS[name]


@of_worlds([3, 4])
def test_over_shared_memory_more_ranks_sum_in_their_order(jobs, world, name):
    expected = jobs.outputs([PYTHON] * world, "rank_order", names_of(world, name))
    found = jobs.outputs([CPP] * world, "shm", names_of(world, name))
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([3, 4], lambda case: case in [CASES[name] for name in PLAIN])
def test_over_shared_memory_is_as_one_process_computes_it(jobs, world, name):
    expected = alone.train(CASES[name], world, jobs.inputs)
    found = jobs.outputs([CPP] * world, "shm", names_of(world, name))
    assert_same_on_all(name, CASES[name], world, expected, found)


@of_worlds([2], mixes)
@mixed_pairs
def test_a_python_and_a_cpp_rank_train_together(jobs, programs, world, name):
    expected = jobs.outputs([PYTHON] * world, "gloo")
    found = jobs.outputs(programs, "gloo", [name for name in CASES if mixes(CASES[name])])
    assert_same_on_all(name, CASES[name], world, expected, found)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name in WHOLE if not WHOLE[name].replicas])
def test_ranks_are_as_one_process_on_the_whole_batch(jobs, world, name):
    expected = alone.train_whole(WHOLE[name], world, jobs.inputs)
    found = jobs.outputs([CPP] * world, "gloo" if world == 1 else "shm", [*WHOLE])
    alone.assert_close(WHOLE[name], expected, [tensor_file.read(found / f"{name}.{rank}") for rank in range(world)])


@pytest.mark.parametrize("name", [name for name in WHOLE if WHOLE[name].replicas])
def test_data_parallel_is_as_one_process_on_the_whole_batch(jobs, name):
    expected = alone.train_whole(WHOLE[name], WHOLE[name].replicas, jobs.inputs)
    found = jobs.outputs([CPP], "gloo", [*WHOLE])
    alone.assert_close(WHOLE[name], expected, [tensor_file.read(found / f"{name}.0")])
