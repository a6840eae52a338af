"""Twelve of PyTorch's own tests, one of a kind; `make conformance` runs all of them, beside Gloo."""

import pathlib
import subprocess
import sys

import torch

TESTS = [
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_all_gather",
    "test_all_gather_object_default_pg",
    "test_all_reduce_coalesced_sum",
    "test_all_to_all",
    "test_barrier_timeout_full_group",
    "test_broadcast",
    "test_ddp_logging_data_cpu",
    "test_isend",
    "test_monitored_barrier_gloo",
    "test_send_recv_any_source_autograd_profiler",
    "test_sparse_all_reduce_sum",
]
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
    TESTS.remove("test_monitored_barrier_gloo")  # Such a torch gives monitored_barrier() to Gloo alone.


def test_twelve_of_pytorchs_tests_pass_with_two_ranks():
    program = pathlib.Path(__file__).with_name("run.py")
    done = subprocess.run([sys.executable, program, "--backend", "lockstep", "--world-size", "2", *TESTS],
                          capture_output=True, text=True, timeout=280)
    assert f"lockstep at world size 2: {{'passed': {len(TESTS)}}}" in done.stdout, done.stdout + done.stderr
    assert "tests with TCP connections between ranks: 0" in done.stdout
