"""A stop or a fault in the validation costs no step of training."""

import signal
import time

import pytest

from training import checkpoint, metrics, require_same, start, train, wait_for_steps, write_idx

RUN = "runs/data-convnet"
# 4 steps an epoch, and 2000 batches of validation for each of two ranks.
FLAGS = ["data", "--nproc", 2, "--batch-size", 16, "--epochs", 2, "--log-interval", 1, "--validation-batch-size", 1]
STEPS = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_idx(tmp_path_factory.mktemp("stop") / "data", train=32 * STEPS, test=4000)


@pytest.fixture(scope="module")
def whole(data):
    """An undisturbed run."""
    train(data.parent, *FLAGS)
    return data.parent / RUN


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 75)])
def test_a_signal_stops_the_validation_and_the_same_command_goes_on(tmp_path, data, whole, number, code):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    job.send_signal(number)
    out, err = job.communicate(timeout=60)
    assert job.returncode == code, err
    assert "stopped by" in out
    assert not any("eval_top1" in line for line in metrics(tmp_path / RUN))
    assert checkpoint(tmp_path / RUN)["metrics"]["step_in_epoch"] == STEPS
    assert "resumed from" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


def test_a_kill_in_the_validation_costs_no_step(tmp_path, data, whole):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    while not (tmp_path / RUN / "checkpoints/last.pt").exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)
    job.kill()  # The launcher; its ranks die with it.
    job.communicate()
    time.sleep(0.3)
    assert f"epoch 1, step {STEPS}" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


def write_photos(folder):
    for part, count in (("train", 16), ("val", 6)):
        for i in range(count):
            path = folder / f"{part}/class{i % 2}/{i}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P6 40 40 255\n" + bytes([200 * (i % 2) + i] * 4800))


def test_a_file_that_cannot_be_read_in_validation_costs_no_step(tmp_path):
    write_photos(tmp_path / "photos")
    bad = tmp_path / "photos/val/class1/3.ppm"
    good = bad.read_bytes()
    flags = ["photos", "--model", "mlp", "--input-size", 32, "--batch-size", 4, "--epochs", 2, "--log-interval", 1]
    train(tmp_path, *flags, "--output", "whole")
    bad.write_bytes(good[:100])
    assert "3.ppm" in train(tmp_path, *flags, code=1).stderr
    run = tmp_path / "runs/photos-mlp"
    assert checkpoint(run)["metrics"]["step_in_epoch"] == 4
    bad.write_bytes(good)
    assert "epoch 1, step 4" in train(tmp_path, *flags).stdout
    require_same(run, tmp_path / "whole/photos-mlp")
