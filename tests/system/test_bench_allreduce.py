"""`lockstep bench allreduce` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess

import pytest

from conftest import BIN, wait_for

OURS = ("bare", "in_place", "staged", "gloo", "copy", "rewrite")


def bench(*arguments, timeout=120):
    command = [str(BIN / "lockstep"), "bench", "allreduce", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def rows():
    done = bench("--ranks", "2,3", "--sizes", "4,20K", "--rounds", 2, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_row_for_each_number_of_ranks_and_size(rows):
    places = [(row["bench"], row["ranks"], row["bytes"]) for row in rows]
    assert places == [("allreduce", ranks, size) for ranks in (2, 3) for size in (4, 20480)]
    assert all(row["cores"] >= 1 and row["arch"] for row in rows)


@pytest.mark.parametrize("name", OURS)
def test_every_result_was_checked_on_every_rank(rows, name):
    for row in rows:
        contender = row["contenders"][name]
        assert contender["operations"] > contender["samples"] >= 2
        assert contender["checked"] == contender["operations"] * row["ranks"]


@pytest.mark.parametrize("name", OURS)
def test_the_median_is_that_of_the_rounds(rows, name):
    for row in rows:
        first, second = row["contenders"][name]["rounds_s"]
        assert row["contenders"][name]["median_s"] == pytest.approx((first + second) / 2)


def test_ratios_are_against_ours_in_place(rows):
    for row in rows:
        medians = {name: c["median_s"] for name, c in row["contenders"].items()}
        for peer in ("gloo", "copy", "rewrite"):
            ratio = medians[peer] / medians["in_place"]
            assert row[f"{peer}_over_ours"] == pytest.approx(ratio)


def test_open_mpi_takes_part_where_it_was_built_in(rows):
    built = (BIN / "benchmarks" / "mpi_allreduce").exists()
    for row in rows:
        mpi = row["contenders"]["mpi"]
        assert (mpi["median_s"] is not None) == built
        assert (row["mpi_over_ours"] is not None) == built
        assert mpi["checked"] == mpi["operations"] * row["ranks"]


def test_without_open_mpi_the_table_says_how_to_get_it():
    done = bench("--ranks", 2, "--sizes", 4, "--rounds", 1, "--mpirun", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "apt-get install openmpi-bin" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "4 bytes" in line).split()
    assert row[0] == "2" and row.count("-") == 2


@pytest.mark.parametrize("contender", ["bare", "in_place", "staged", "gloo", "mpi", "copy", "rewrite"])
def test_a_wrong_result_names_contender_rank_and_size(contender):
    if contender == "mpi" and not (BIN / "benchmarks" / "mpi_allreduce").exists():
        pytest.skip("Open MPI is not installed")
    done = bench("--ranks", 2, "--sizes", "1K", "--rounds", 1, "--spoil", contender)
    assert done.returncode == 1
    assert "on rank 1" in done.stderr
    assert f"{contender}, 1024 bytes: element 255 is " in done.stderr


def test_a_peer_that_cannot_be_started_is_named():
    done = bench("--ranks", 2, "--sizes", 4, "--rounds", 1, "--mpirun", "/no/such/mpirun")
    assert done.returncode == 1
    assert "executing '/no/such/mpirun': No such file" in done.stderr


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--ranks", 1), "not in range 2 to 64"),
        (("--ranks", 65), "not in range 2 to 64"),
        (("--ranks", "two"), "--ranks"),
        (("--sizes", 0), "multiple of 4"),
        (("--sizes", 6), "multiple of 4"),
        (("--sizes", "5G"), "multiple of 4 up to 4G"),
        (("--sizes", "many"), "--sizes"),
        (("--sizes", "4G", "--ranks", 64), "take fewer --ranks or smaller --sizes"),
        (("--rounds", 0), "--rounds"),
        (("--shout",), "--shout"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(arguments, says):
    done = bench(*arguments, timeout=20)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_killed_benchmark_leaves_no_process_behind(launcher):
    command = [str(BIN / "lockstep"), "bench", "allreduce", "--ranks", "2", "--sizes", "1M", "--rounds", "1000"]
    job = subprocess.Popen(command, env=launcher.environment(), stdout=subprocess.DEVNULL)
    launcher.jobs.append(job)
    ranks = lambda: sum("allreduce_ranks" in c and " run " not in c for c in launcher.marked().values())
    wait_for(lambda: ranks() == 4, 30, "two ranks of ours and two of Gloo's")
    job.kill()
    wait_for(lambda: not launcher.marked(), 10, "no process is left")
