"""The example programs, as a reader of the documentation would start them."""

import re
import subprocess

import pytest

from conftest import BIN


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # There may be fewer GPUs than ranks.


def weights(text):
    return re.findall(r"rank (\d) of (\d): the weights' sum is (\S+)", text)


@pytest.mark.parametrize("name", ["toy_basic", "toy_model_parallel"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_started_by_the_program_end_equal(launcher, name, ranks):
    done = subprocess.run([BIN / "examples" / name, str(ranks)], env=launcher.environment(),
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found = weights(done.stdout)
    assert sorted(rank for rank, _, _ in found) == [str(rank) for rank in range(ranks)]
    assert len({total for _, _, total in found}) == 1
    launcher.assert_clean(0)


@pytest.mark.parametrize("name", ["toy_basic", "toy_model_parallel"])
def test_ranks_of_a_launcher_end_equal(launcher, name):
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / name)
    assert (done.returncode, done.stderr) == (0, "")
    found = weights(done.stdout)
    assert len(found) == 2 and found[0][2] == found[1][2]


def test_loss_falls(launcher):
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / "toy_basic")
    losses = [float(value) for value in re.findall(r"rank 0 .*loss (\S+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < losses[0]


def test_plain_libtorch_needs_one_call_of_lockstep(launcher, tmp_path):
    command = [BIN / "examples" / "plain_libtorch", tmp_path / "meeting"]
    ranks = [subprocess.Popen([*command, str(rank), "2"], env=launcher.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in (0, 1)]
    for rank, process in enumerate(ranks):
        out, _ = process.communicate(timeout=60)
        assert out == f"rank {rank} of 2 through lockstep: the sum is 3, the largest rank 1\n"
        assert process.returncode == 0
    launcher.assert_clean(0)


def test_plain_libtorch_says_what_is_wrong(launcher, tmp_path):
    for backend, rank, text in (("glou", 0, "backend 'glou' is unknown"), ("gloo", 2, "rank")):
        done = subprocess.run([BIN / "examples" / "plain_libtorch", tmp_path / "meeting", str(rank), "1", backend],
                              env=launcher.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and text in done.stderr


def test_loading_goes_on_with_other_ranks_where_it_was_left(launcher, tmp_path):
    def images(ranks, *batches):
        program = [BIN / "examples" / "load_data", tmp_path / "position", *batches]
        done = launcher.run("--nproc-per-node", ranks, *program)
        assert done.returncode == 0, done.stderr
        return re.findall(rf"rank \d of {ranks}: (\d+) batches, .*; (\d+) of 600 images of epoch (\d)", done.stdout)

    assert images(2, 3) == [("3", "180", "0")] * 2
    assert images(3, 2) == [("2", "300", "0")] * 3
    assert images(1) == [("5", "600", "0")]
    assert images(1) == [("0", "600", "0")]
