"""`lockstep bench loader` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess

import pytest

from conftest import BIN


def bench(*arguments, timeout=200):
    command = [str(BIN / "lockstep"), "bench", "loader", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


SMALL = ("--photos", 20, "--files", 600, "--rounds", 1)


@pytest.fixture(scope="module")
def rows():
    done = bench(*SMALL, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_all_rows_have_all_sides(rows):
    assert set(rows) >= {"memory", "exact", "fast", "cache", "decode", "index", "first"}
    sides = {(side["side"], side["workers"]) for side in rows["memory"]["sides"]}
    assert sides == {("ours", 0), ("ours", "auto"), *(("pytorch", workers) for workers in (0, 1, 2, 4))}
    assert all(row["bench"] == "loader" and row["cores"] >= 1 for row in rows.values())


def test_every_contender_saw_all_samples(rows):
    expected = {"memory": 60000, "index": 600, "first": 256}
    for row in rows.values():
        for side in row["sides"]:
            if not side["missing"]:
                assert side["samples"] == expected.get(row["row"], 20)


def test_ratios_are_those_of_the_medians(rows):
    sides = {(side["side"], side["workers"]): side["median_s"] for side in rows["memory"]["sides"]}
    best = min(seconds for (side, _), seconds in sides.items() if side == "pytorch")
    assert rows["memory"]["per_core"] == pytest.approx(sides["pytorch", 0] / sides["ours", 0])
    assert rows["memory"]["ratio"] == pytest.approx(best / sides["ours", "auto"])


def test_without_python_ours_runs_alone():
    done = bench("--rows", "memory", "--rounds", 1, "--python", "")
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if line.startswith("60,000")).split()
    assert row.count("-") == 4
    assert "PyTorch took no part in some rows: there is no Python that has torch" in done.stdout


def test_an_own_folder_is_read():
    done = bench("--rows", "decode", "--rounds", 1, "--data", "/proc/self/fdinfo")
    assert done.returncode == 1
    assert "fdinfo" in done.stderr


def test_help_needs_no_torch():
    done = bench("--help")
    assert done.returncode == 0
    assert "--data" in done.stdout and "'best' is the fastest of PyTorch's" in done.stdout
