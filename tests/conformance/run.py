#!/usr/bin/env python3
"""Runs PyTorch's own distributed tests against one backend at one world size.

    run.py --backend lockstep --world-size 2 [--json FILE] [TEST...]

One line per test; exit code 1 if one fails. The JSON has {test: [outcome, seconds, reason]} and the
tests whose ranks held TCP connections when they ended.
"""

import argparse
import collections
import contextlib
import json
import os
import sys
import tempfile
import time
import unittest

# Before torch is imported: what a thread pool has started is lost in a fork.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The suite asks for two GPUs wherever there is one, even for tests on the CPU, and skips them all.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import sockets  # noqa: E402


def outcome_of(case):
    """passed, skipped or failed, and the reason."""
    result = unittest.TestResult()
    case.run(result)
    for outcome, found in (("failed", result.errors + result.failures), ("skipped", result.skipped)):
        if found:
            return outcome, found[0][1]
    return "passed", ""


def run(cases, log):
    results = {}
    for name, case in cases.items():
        start = time.monotonic()
        with redirected(log):
            outcome, reason = outcome_of(case)
        seconds = round(time.monotonic() - start, 1)
        results[name] = (outcome, seconds, reason)
        line = reason.strip().splitlines()[-1] if reason else ""
        print(f"{outcome:8}{seconds:6} s  {name}  {line[:300] if outcome == 'skipped' else ''}", flush=True)
        if outcome == "failed":
            print(reason, flush=True)
    return results


@contextlib.contextmanager
def redirected(log):
    """stdout and stderr of this process and its forks, by descriptor."""
    kept = [os.dup(1), os.dup(2)]
    sys.stdout.flush()
    try:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
        yield
    finally:
        for descriptor, old in zip((1, 2), kept):
            os.dup2(old, descriptor)
            os.close(old)


@contextlib.contextmanager
def own_temporary_folder():
    """The suite leaves its files behind: here they go with the run."""
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--json", help="where to write the results")
    parser.add_argument("tests", nargs="*", help="names of tests; without any, all")
    arguments = parser.parse_args()
    os.environ["WORLD_SIZE"] = str(arguments.world_size)

    import suite

    cases = suite.cases(arguments.backend)
    if unknown := set(arguments.tests) - cases.keys():
        parser.error(f"the suite of this torch has no test {', '.join(sorted(unknown))}")
    chosen = {name: cases[name] for name in arguments.tests or cases}
    with open(os.devnull, "w") as log, tempfile.NamedTemporaryFile("r") as connections, own_temporary_folder():
        os.environ[sockets.FILE] = connections.name
        results = run(chosen, log)
        with_tcp = sorted({line.split()[0] for line in connections})
    counts = collections.Counter(outcome for outcome, _, _ in results.values())
    print(f"{arguments.backend} at world size {arguments.world_size}: {dict(counts)}; "
          f"tests with TCP connections between ranks: {len(with_tcp)} {with_tcp if arguments.backend != 'gloo' else ''}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"results": results, "tcp": with_tcp}, file, indent=1)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
