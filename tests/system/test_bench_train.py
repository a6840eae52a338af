"""`lockstep bench train` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess

import pytest

from conftest import BIN
from training import environment, write_idx
from two_hosts import are_possible


def bench(*arguments, timeout=120):
    return subprocess.run([str(BIN / "lockstep"), "bench", "train", *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env=environment())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_idx(tmp_path_factory.mktemp("bench") / "data", train=1280, test=64)


def test_python_trains_the_same(data):
    done = bench("--rows", "fashion-mnist", "--rounds", 1, "--workers", 0, "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    rates = row["images_per_second"]
    assert (row["row"], row["best"], set(rates)) == ("fashion-mnist", "peer0", {"ours", "peer0"})
    assert row["ratio"] == pytest.approx(rates["ours"] / rates["peer0"])


def test_tables_of_ours_alone(data):
    rows = "fashion-mnist,folder,restart" + (",nodes" if are_possible() else "")
    done = bench("--rows", rows, "--rounds", 1, "--data", data, "--photos", 64, "--restart-batch-size", 8, "--epochs", 1,
                 "--seeds", 1, "--python", "")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:1] + line[-1:] for line in lines if line[:1] in (["Fashion-MNIST,"], ["JPEGs,"]) and "-" in line] == [
        ["Fashion-MNIST,", "-"], ["JPEGs,", "-"]]
    restarts = [line for line in lines if line[:2] == ["the", "first"]]
    assert [line[-2:] for line in restarts] == [["-", "-"]] * 2
    assert 0 < float(restarts[0][-3]) <= float(restarts[1][-3])
    if are_possible():
        nodes = {line[0]: line[1:] for line in lines if line[:1] in (["main"], ["worker"], ["single"])}
        assert set(nodes) == {"main", "worker", "single"}
        assert all(float(wall) > 0 and float(user) > 0 for wall, user, *_ in nodes.values())


def test_accuracy_of_fast_decoding_is_compared():
    done = bench("--rows", "decode", "--photos", 40, "--epochs", 1, "--seeds", 1, "--ranks", 1, "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert set(row["top1"]) == {"exact", "fast"} and all(len(values) == 1 for values in row["top1"].values())
    assert row["difference"] == pytest.approx(row["mean_top1"]["fast"] - row["mean_top1"]["exact"])


def test_checking_gradients_is_measured_beside_ignoring_them(data):
    done = bench("--rows", "nonfinite", "--rounds", 1, "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    rates = row["images_per_second"]
    assert (row["row"], row["goal_percent"], set(rates)) == ("nonfinite", 1.0, {"abort", "ignore"})
    assert row["cost_percent"] == pytest.approx(100 * (1 - rates["abort"] / rates["ignore"]))
    assert all(len(rounds) == 1 and min(rounds) > 0 for rounds in row["rounds_images_per_second"].values())
    shown = bench("--rows", "nonfinite", "--rounds", 1, "--data", data)
    assert shown.returncode == 0, shown.stderr
    line = next(line for line in shown.stdout.splitlines() if line.startswith("gradients checked"))
    assert [float(number) > 0 for number in line.split()[2:4]] == [True, True]
