"""PyTorch's own distributed tests, from the installed wheel, made to run against a backend of any name.

What the suite decides when it is imported (which tests a backend gets) it decides for Gloo, so that all
backends are given Gloo's tests; the all_to_all ones it gives to MPI alone. What it decides while it runs
(which group it makes) it decides by the name of the backend.
"""

import importlib
import importlib.util
import os
import sys

import torch.distributed as dist
import torch.multiprocessing

import sockets

NAME = "torch.testing._internal.distributed.distributed_test"
ALL_TO_ALL = "all_to_all"

# c10d calls every backend that it does not know "custom", and this test compares that with the name that
# Python gave: so ours has that name in Python too, in this test.
CALLED_CUSTOM = "test_ddp_logging_data_cpu"


def load(backend):
    """A copy of the suite that was imported for the backend named."""
    os.environ["BACKEND"] = backend
    os.environ["INIT_METHOD"] = "file://"  # Else some tests are left out.
    spec = importlib.util.find_spec(NAME)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case_of(suite, backend):
    """The suite's tests as a class of their own, whose ranks are forks of this process."""
    for names in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(suite, names).append(backend)
    for feature in ("gpu", "ddp", "subgroup"):
        suite.DistTestCases.backend_feature[feature].add(backend)

    class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            renamed = backend != "gloo" and self._testMethodName == CALLED_CUSTOM
            suite.BACKEND = "custom" if renamed else backend
            suite.INIT_METHOD = os.environ["INIT_METHOD"]  # A file that setUp() has just chosen.
            sys.modules[NAME] = suite  # What is pickled is looked up there.
            # Forks of a process that has imported everything and started no thread: a rank starts in
            # milliseconds, and not in the seconds that `import torch` takes.
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def run_test(self, test_name, parent_pipe):
            try:
                super().run_test(test_name, parent_pipe)
            finally:
                sockets.report(test_name)

        def _test_accumulate_gradients_no_sync(self, *arguments, **options):
            suite.BACKEND = "gloo"  # The group is there already; here the name only means "on the CPU".
            super()._test_accumulate_gradients_no_sync(*arguments, **options)

    return Case


def register_as_custom(backend):
    if backend.upper() not in dist.Backend._plugins:
        importlib.import_module(backend)  # Found by its entry point from torch 2.14 on; by this always.
    plugin = dist.Backend._plugins[backend.upper()]
    dist.Backend.register_backend("custom", plugin.creator_fn, plugin.extended_api, ["cpu"])


def cases(backend):
    """All tests, by name; each as a unittest.TestCase."""
    if backend != "gloo":
        register_as_custom(backend)
    found = {}
    for imported_for in ("gloo", "mpi"):
        case = case_of(load(imported_for), backend)
        for name in sorted(dir(case)):
            if name.startswith("test_") and (ALL_TO_ALL in name) == (imported_for == "mpi"):
                found[name] = case(name)
    os.environ["BACKEND"] = backend  # Some tests ask it again, in the rank.
    return found
