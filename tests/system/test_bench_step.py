"""`lockstep bench step` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess
import sys

import pytest

from conftest import BIN, wait_for

SIDES = ("ours", "plain_cpp", "pytorch", "plain_python")
QUICK = ("--rounds", 2, "--steps", 4, "--batch-size", 8)


def bench(*arguments, timeout=180):
    command = [str(BIN / "lockstep"), "bench", "step", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def rows():
    done = bench("--models", "mlp", *QUICK, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_row_for_each_number_of_ranks(rows):
    places = [(row["bench"], row["model"], row["device"], row["ranks"], row["batch_size"]) for row in rows]
    assert places == [("step", "mlp", "cpu", ranks, 8) for ranks in (1, 2)]
    assert all(row["cores"] >= 1 and row["arch"] for row in rows)


@pytest.mark.parametrize("name", SIDES)
def test_the_median_is_that_of_the_rounds(rows, name):
    for row in rows:
        side = row["sides"][name]
        first, second = side["rounds_s"]
        assert side["steps"] == 4
        assert side["median_s"] == pytest.approx((first + second) / 2)
        assert side["samples_per_s"] == pytest.approx(8 * row["ranks"] / side["median_s"])


@pytest.mark.parametrize("name", SIDES)
def test_memory_and_loss_of_every_side(rows, name):
    for row in rows:
        side = row["sides"][name]
        assert side["peak_bytes"] > 50 << 20
        assert 0 < side["loss"] < 3


def test_ratios_are_medians_over_the_rounds(rows):
    def ratio(row, above, below):
        rounds = zip(row["sides"][above]["rounds_s"], row["sides"][below]["rounds_s"])
        return pytest.approx(sum(a / b for a, b in rounds) / 2)

    for row in rows:
        assert row["pytorch_over_ours"] == ratio(row, "pytorch", "ours")
        for name, plain in (("ours", "plain_cpp"), ("pytorch", "plain_python")):
            assert row["efficiency"][name] == ratio(row, plain, name)
            assert row["overhead"][name] + 1 == ratio(row, name, plain)


def test_all_gradients_travel_in_a_group_of_one_too(rows):
    parameters = 784 * 256 + 256 + 2 * (256 * 256 + 256) + 256 * 10 + 10
    for row in rows:
        assert row["bytes_per_step"] == 4 * parameters
        assert row["buckets"] >= 1
        assert 0 <= row["hidden"] <= 1
        # The two of 256 x 256 and the one of 784 x 256 are made in their bucket.
        assert row["copied_bytes_per_step"] == (0 if row["ranks"] == 1 else 4 * (256 * 10 + 10 + 3 * 256))


def test_the_table_has_a_line_for_each_row_and_says_what_it_shows():
    done = bench("--models", "convnet", "--ranks", 1, *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("convnet")]
    assert [line[:3] for line in lines] == [["convnet", "8", "1"]] * 2
    assert "-" not in lines[0]
    assert "their losses were compared" in done.stdout


def test_without_torchvision_the_resnet_has_no_peer(tmp_path):
    (tmp_path / "torchvision.py").write_text("raise ModuleNotFoundError(\"No module named 'torchvision'\")")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = bench("--models", "resnet18", "--ranks", 1, "--rounds", 1, "--steps", 1, "--batch-size", 2, "--python", python)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PyTorch took no part in resnet18: No module named 'torchvision'" in done.stdout


@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_computes_something_else_is_named(side):
    done = bench("--models", "mlp", "--ranks", 1, *QUICK, "--spoil", side)
    assert done.returncode == 1
    assert "the loss of step 1 is " in done.stderr
    assert f"'{side}'" in done.stderr


def test_variants_have_a_row_each():
    """Their losses are compared with PyTorch's as all others are."""
    variants = ["ddp", "zero", "in_backward", "data_parallel"]
    done = bench("--models", "mlp", "--ranks", 2, *QUICK, "--variants", ",".join(variants), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["variant"] for row in rows] == ["", *variants[1:]]
    assert [row["bytes_per_step"] > 0 for row in rows] == [True, True, True, False]
    assert len({round(row["sides"]["ours"]["loss"], 3) for row in rows}) == 1
    # Rank 0's share is the largest weight, which has more elements than all others.
    shared, whole = 4 * 784 * 256, rows[0]["bytes_per_step"]
    for row in rows:
        expected = shared if row["variant"] == "zero" else whole
        assert row["sides"]["ours"]["optimizer_bytes"] == row["sides"]["pytorch"]["optimizer_bytes"] == expected


def test_with_three_ranks_sums_in_both_orders_are_compared():
    done = bench("--models", "mlp", "--ranks", 3, *QUICK, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ranks"] == 3


# Each is compared with the same sum of the other library: Gloo's along a ring, ours by rank.
@pytest.mark.parametrize("spoiled, other", [("ours_over_gloo", "pytorch"), ("pytorch_by_rank", "ours")])
def test_with_three_ranks_a_reference_that_computes_something_else_is_named(spoiled, other):
    done = bench("--models", "mlp", "--ranks", 3, *QUICK, "--spoil", spoiled)
    assert done.returncode == 1
    assert "the loss of step 1 is " in done.stderr
    assert f"'{spoiled}'" in done.stderr and f"'{other}'" in done.stderr


def test_a_python_that_cannot_be_started_is_named():
    done = bench("--models", "mlp", "--ranks", 1, *QUICK, "--python", "/no/such/python")
    assert done.returncode == 1
    assert "/no/such/python" in done.stderr


def test_a_killed_benchmark_leaves_no_process_behind(launcher):
    command = [str(BIN / "lockstep"), "bench", "step", "--models", "mlp", "--ranks", "2", "--rounds", "1000"]
    job = subprocess.Popen(command, env=launcher.environment(), stdout=subprocess.DEVNULL)
    launcher.jobs.append(job)
    ranks = lambda: sum(
        ("step_ranks" in c or "step.py" in c) and " run " not in c for c in launcher.marked().values()
    )
    wait_for(lambda: ranks() == 8, 30, "two processes of each side")
    job.kill()
    wait_for(lambda: not launcher.marked(), 10, "no process is left")
