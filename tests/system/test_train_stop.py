"""Signals, a closed terminal, a fault in the validation or of the data: none costs a step of training."""

import os
import pty
import re
import signal
import time

import pytest

from conftest import stop, wait_for
from marks import also_long
from training import (checkpoint, command, environment, metrics, require_same, start, stop_rank, train,
                      wait_for_steps, write_idx)

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


def marked(launcher):
    """An environment by which the launcher of the test finds all processes of a job."""
    return dict([launcher.mark.split("=")])


def wait_for_checkpoint(job, run):
    """Until the one before the validation is written."""
    while not (run / "checkpoints/last.pt").exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)


def hear_hangups():
    """Whoever runs the tests may ignore them (nohup), and what is ignored stays so."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def assert_all_gone(launcher, within):
    wait_for(lambda: not launcher.marked(), within, "no process is left")


@pytest.mark.parametrize("number, code", [
    (signal.SIGINT, 130), *also_long((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, 75))])
def test_a_signal_stops_the_validation_and_the_same_command_goes_on(tmp_path, data, whole, number, code):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, preexec_fn=hear_hangups)
    wait_for_steps(tmp_path / RUN, STEPS, job)
    job.send_signal(number)
    out, err = job.communicate(timeout=60)
    assert job.returncode == code, err
    assert out.count("stopped by") == 1
    if number != signal.SIGUSR1:  # The launcher passes that one on without a word.
        assert err.count("\n") == 1 and f"{number.name} received: passed on to 2 workers" in err
    assert not any("eval_top1" in line for line in metrics(tmp_path / RUN))
    assert checkpoint(tmp_path / RUN)["metrics"]["step_in_epoch"] == STEPS
    assert "resumed from" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


def test_a_second_signal_ends_all_at_once(tmp_path, data, whole, launcher):
    """A rank that is stopped keeps the others from stopping in order; the time to save is longer than the test waits."""
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--shutdown-timeout", 120, env=marked(launcher))
    wait_for_checkpoint(job, tmp_path / RUN)
    stop_rank(tmp_path, 1)
    job.send_signal(signal.SIGINT)
    assert "SIGINT received" in job.stderr.readline()
    assert len(launcher.marked()) >= 4  # Launcher, agent, two ranks.
    job.send_signal(signal.SIGINT)
    assert job.wait(30) == 130
    assert_all_gone(launcher, 15)
    assert "stopped by" not in job.stdout.read()
    # The checkpoint from before is whole.
    assert f"epoch 1, step {STEPS}" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


@pytest.mark.long
def test_a_second_signal_ends_a_rank_without_a_launcher(tmp_path, data):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS, "--nproc", 1)
    wait_for_steps(tmp_path / RUN, 2 * STEPS, job)
    # Stopped, so that it gets both before it can end by the first.
    stop(job.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        job.send_signal(number)
    out, err = job.communicate(timeout=30)
    assert job.returncode in (130, 143), err
    assert "stopped by" not in out


def test_a_closed_terminal_stops_in_order(tmp_path, data, whole, launcher):
    (tmp_path / "data").symlink_to(data)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        hear_hangups()
        os.execve(command()[0], command(*FLAGS), environment(marked(launcher)))
    path = tmp_path / RUN / "metrics.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= STEPS, 60, "the steps of an epoch")
    os.close(terminal)
    begin = time.monotonic()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    assert_all_gone(launcher, 15)
    assert time.monotonic() - begin < 30
    assert checkpoint(tmp_path / RUN)["metrics"]["step_in_epoch"] == STEPS
    assert "resumed from" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


def test_a_kill_in_the_validation_costs_no_step(tmp_path, data, whole):
    (tmp_path / "data").symlink_to(data)
    job = start(tmp_path, *FLAGS)
    wait_for_checkpoint(job, tmp_path / RUN)
    job.kill()  # The launcher; its ranks die with it.
    job.communicate()
    time.sleep(0.3)
    assert f"epoch 1, step {STEPS}" in train(tmp_path, *FLAGS).stdout
    require_same(tmp_path / RUN, whole)


def write_photos(folder, count=16):
    for part, count in (("train", count), ("val", 6)):
        for i in range(count):
            path = folder / f"{part}/class{i % 2}/{i}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P6 40 40 255\n" + bytes([(200 * (i % 2) + i) % 256] * 4800))


def test_a_file_that_cannot_be_read_in_validation_costs_no_step(tmp_path):
    write_photos(tmp_path / "photos")
    bad = tmp_path / "photos/val/class1/3.ppm"
    good = bad.read_bytes()
    flags = ["photos", "--model", "mlp", "--input-size", 32, "--batch-size", 4, "--epochs", 2, "--log-interval", 1,
             "--max-bad", 0]
    train(tmp_path, *flags, "--output", "whole")
    bad.write_bytes(good[:100])
    assert "3.ppm" in train(tmp_path, *flags, code=1).stderr
    run = tmp_path / "runs/photos-mlp"
    assert checkpoint(run)["metrics"]["step_in_epoch"] == 4
    bad.write_bytes(good)
    assert "epoch 1, step 4" in train(tmp_path, *flags).stdout
    require_same(run, tmp_path / "whole/photos-mlp")


def test_data_that_vanishes_is_named_and_costs_nothing(tmp_path):
    """As a file server that goes away, and comes back."""
    write_photos(tmp_path / "photos", 64)
    flags = ["photos", "--model", "mlp", "--input-size", 32, "--batch-size", 4, "--epochs", 30, "--nproc", 2,
             "--log-interval", 1, "--checkpoint-interval", 5]
    train(tmp_path, *flags, "--output", "whole")
    run = tmp_path / "runs/photos-mlp"
    job = start(tmp_path, *flags)
    wait_for_steps(run, 20, job)
    (tmp_path / "photos").rename(tmp_path / "gone")
    out, err = job.communicate(timeout=30)
    assert job.returncode == 1, (out, err)
    assert re.search("'photos/(train|val)/class", err) and "No such file or directory" in err
    assert "finished" not in out and checkpoint(run)["metrics"]["step"] >= 10
    assert "there is no data 'photos'" in train(tmp_path, *flags, code=2).stderr, "it is still away"
    (tmp_path / "gone").rename(tmp_path / "photos")
    assert "resumed from" in train(tmp_path, *flags).stdout
    require_same(run, tmp_path / "whole/photos-mlp")
