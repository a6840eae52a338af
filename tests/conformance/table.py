#!/usr/bin/env python3
"""Compares the runs of two backends and writes docs/results/conformance.md.

    table.py FOLDER PAGE    FOLDER has BACKEND-WORLD.json of run.py, for gloo and lockstep

Exit code 1 if a test passes with Gloo and not with lockstep, if an all_to_all test fails with lockstep, or
if ranks of lockstep held a TCP connection; each is said in a line.
"""

import json
import pathlib
import platform
import sys

import torch
from suite import ALL_TO_ALL

THEIRS, OURS = "gloo", "lockstep"

# With TORCH_DISTRIBUTED_DEBUG=DETAIL, which these tests set, torch puts a Gloo group of its own beside every group.
TORCH_CONNECTS = {"test_all_gather_object_subgroup", "test_gather_object_subgroup"}


class Run:
    def __init__(self, path):
        self.backend, world = path.stem.split("-")
        self.world = int(world)
        content = json.loads(path.read_text())
        self.outcomes = {test: outcome for test, (outcome, _, _) in content["results"].items()}
        self.seconds = sum(seconds for _, seconds, _ in content["results"].values())
        self.tcp = set(content["tcp"])

    def with_outcome(self, outcome):
        return {test for test, found in self.outcomes.items() if found == outcome}


# Which torch before 2.14 gives to Gloo alone.
OF_GLOO = {"test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup"}
IS_OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)


def faults(theirs, ours):
    """What is wrong at one world size, a line each."""
    passed = ours.with_outcome("passed") | (OF_GLOO if IS_OLD else set())
    for test in sorted(theirs.with_outcome("passed") - passed):
        yield f"world size {ours.world}: {test} passes with {THEIRS}, with {OURS} it is: {ours.outcomes.get(test)}"
    for test in sorted(ours.with_outcome("failed")):
        if ALL_TO_ALL in test:
            yield f"world size {ours.world}: {test} failed with {OURS}"
    for test in sorted(ours.tcp - TORCH_CONNECTS):
        yield f"world size {ours.world}: ranks of {test} held TCP connections"


def page(runs):
    worlds = sorted({world for _, world in runs})
    lines = [
        "# PyTorch's own tests",
        "",
        f"Written by `make conformance`: torch {torch.__version__}, {platform.machine()}. The tests are",
        "`torch/testing/_internal/distributed/distributed_test.py` of the installed wheel, unedited. The",
        "program that runs them is `tests/conformance/run.py`. Most of the suite's 285 tests need GPUs.",
        "Some need exactly 4 ranks, those of subgroups need 8. The suite gives the all_to_all ones to MPI",
        "alone; here both backends are given them.",
        "",
        "What the program changes for a backend of another name: the suite's lists of backends with DDP,",
        "subgroups and profiling get the name, ranks are forks, the `test_accumulate_gradients_no_sync*`",
        "are told `gloo` after their group is made (it means CPU there), and `test_ddp_logging_data_cpu`",
        "knows ours as `custom`, which is what c10d calls it.",
        "",
        "| world size | Gloo passes | lockstep passes | of Gloo's | beyond Gloo's | seconds, Gloo | seconds, lockstep |",
        "|---|---|---|---|---|---|---|",
    ]
    for world in worlds:
        theirs, ours = runs[THEIRS, world], runs[OURS, world]
        their_tests, our_tests = theirs.with_outcome("passed"), ours.with_outcome("passed")
        lines.append(f"| {world} | {len(their_tests)} | {len(our_tests)} | {len(their_tests & our_tests)} "
                     f"| {len(our_tests - their_tests)} | {theirs.seconds:.0f} | {ours.seconds:.0f} |")
    lines += [
        "",
        "Ranks of lockstep held no TCP connection at the end of any test (they meet in a file), but for",
        "those of " + ", ".join(f"`{test}`" for test in sorted(TORCH_CONNECTS)) + ".",
        "These set `TORCH_DISTRIBUTED_DEBUG=DETAIL`, and torch then puts a Gloo group of its own beside",
        "every group.",
        "",
        "World sizes at which a test passes; tests that pass nowhere are left out.",
        "",
        "| test | Gloo | lockstep |",
        "|---|---|---|",
    ]
    for test in sorted({test for run in runs.values() for test in run.with_outcome("passed")}):
        passes = [" ".join(str(world) for world in worlds if test in runs[backend, world].with_outcome("passed"))
                  for backend in (THEIRS, OURS)]
        lines.append(f"| `{test}` | {passes[0]} | {passes[1]} |")
    return "\n".join(lines) + "\n"


def main():
    folder, target = map(pathlib.Path, sys.argv[1:])
    runs = {(run.backend, run.world): run for run in map(Run, folder.glob("*-*.json"))}
    target.write_text(page(runs))
    found = [fault for (backend, world), run in sorted(runs.items()) if backend == OURS
             for fault in faults(runs[THEIRS, world], run)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
