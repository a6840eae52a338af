"""A run that was stopped or killed goes on to the same bits as one that was not."""

import os
import pathlib
import re
import signal
import time

import pytest

from marks import also_long
from training import checkpoint, losses, metrics, require_same, start, summary, train, wait_for_steps, weights, write_idx

RUN = "runs/data-convnet"
# 20 steps an epoch; the convnet's batch norms and momentum make each step depend on all before.
FLAGS = ["data", "--nproc", 2, "--batch-size", 16, "--epochs", 3, "--log-interval", 1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    write_idx(folder / "data")
    train(folder, *FLAGS)
    return folder / RUN


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "data")
    return tmp_path


def test_a_run_has_each_step_and_epoch_once(whole):
    lines = metrics(whole)
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 61))
    assert [line["epoch"] for line in lines if "eval_top1" in line] == [0, 1, 2]
    assert [row["epoch"] for row in summary(whole)] == ["0", "1", "2"]
    assert list(summary(whole)[0]) == ["epoch", "train_loss", "eval_loss", "eval_top1", "eval_top5", "lr"]


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), *also_long((signal.SIGINT, 130), (signal.SIGUSR1, 75))])
def test_a_signal_stops_in_order_and_the_same_command_goes_on(folder, whole, number, code):
    job = start(folder, *FLAGS)
    wait_for_steps(folder / RUN, 25, job)
    job.send_signal(number)
    out, err = job.communicate(timeout=60)
    assert job.returncode == code, err
    assert "stopped by" in out
    assert 0 < checkpoint(folder / RUN)["metrics"]["step_in_epoch"] < 20
    out = train(folder, *FLAGS).stdout
    assert "resumed from" in out
    require_same(folder / RUN, whole)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(folder, whole):
    flags = [*FLAGS, "--checkpoint-interval", 7]
    job = start(folder, *flags)
    wait_for_steps(folder / RUN, 45, job)
    job.kill()
    job.communicate()
    last = folder / RUN / "checkpoints/last.pt"
    saved = checkpoint(folder / RUN)
    name, tensor = max(saved["model"].items(), key=lambda item: item[1].numel())
    content = bytearray(last.read_bytes())
    offset = content.index(tensor.numpy().tobytes()) + 10
    content[offset] ^= 1
    last.write_bytes(content)
    out = train(folder, *flags).stdout
    assert f"resumed from '{RUN}/checkpoints/prev.pt'" in out
    told = next(line for line in out.splitlines() if "resumed from" in line)
    assert f"{RUN}/checkpoints/last.pt' is damaged" in told and f"'model.{name}'" in told and "at byte " in told
    told_at = int(re.search(r"at byte (\d+)", told)[1])
    assert offset - tensor.numel() * 4 <= told_at <= offset
    require_same(folder / RUN, whole)


@pytest.mark.long
def test_killed_ranks_go_on_from_the_last_checkpoint(folder, whole):
    flags = [*FLAGS, "--checkpoint-interval", 7]
    for steps in (10, 30, 45):
        job = start(folder, *flags)
        wait_for_steps(folder / RUN, steps, job)
        job.kill()  # The launcher; its ranks die with it.
        job.communicate()
        time.sleep(0.3)
    train(folder, *flags)
    require_same(folder / RUN, whole)


def test_a_dead_rank_is_replaced_in_the_same_command(folder, whole):
    flags = [*FLAGS, "--checkpoint-interval", 7, "--max-restarts", 3]
    begin = time.monotonic()
    job = start(folder, *flags)
    for steps in (10, 30):
        wait_for_steps(folder / RUN, steps, job)
        victims = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_rank(pid, folder)]
        os.kill(victims[steps % len(victims)], signal.SIGKILL)
        time.sleep(1)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    count, seconds = re.search(r"^  restarts +(\d+), which took (\d+\.\d) s$", out, re.M).groups()
    assert count == "2" and err.count("restarting all workers") == 2
    # From a rank's death to the next new step: no less than two starts, and no more than the job took.
    assert 0.2 < float(seconds) < time.monotonic() - begin
    require_same(folder / RUN, whole)


def is_rank(pid, folder):
    try:
        if os.readlink(f"/proc/{pid}/cwd") != str(folder):
            return False
        return b"\0RANK=" in b"\0" + pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_a_finished_run_is_followed_by_a_new_one(folder):
    short = ["data", "--epochs", 1, "--batch-size", 64]
    train(folder, *short)
    train(folder, *short)
    assert (folder / "runs/data-convnet-2/summary.csv").exists()
    assert weights(folder / RUN) == weights(folder / "runs/data-convnet-2")


def test_other_settings_are_refused_with_the_difference(folder):
    job = start(folder, *FLAGS)
    wait_for_steps(folder / RUN, 5, job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    err = train(folder, *FLAGS, "--lr", 0.5, code=2).stderr
    assert "--lr is '0.5' here and not given there" in err and "--resume no" in err
    flags = ["data", "--batch-size", 16, "--epochs", 3, "--log-interval", 1]
    assert "HINT: --global-batch-size 32 is the same batch" in train(folder, *flags, code=2).stderr


@pytest.mark.long
def test_one_rank_goes_on_with_the_batches_of_two(folder, whole):
    """Not to the bit: batch norm sees other batches. The samples of each step are the same."""
    job = start(folder, *FLAGS)
    wait_for_steps(folder / RUN, 25, job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    out = train(folder, "data", "--global-batch-size", 32, "--epochs", 3, "--log-interval", 1).stdout
    assert "another number of ranks" in out
    assert [line["step"] for line in metrics(folder / RUN) if "loss" in line] == list(range(1, 61))
    assert len(losses(folder / RUN)) == len(losses(whole))


def test_a_second_process_in_the_same_run_is_refused(folder):
    job = start(folder, *FLAGS, "--epochs", 1000)
    wait_for_steps(folder / RUN, 5, job)
    err = train(folder, *FLAGS, "--epochs", 1000, code=2).stderr
    assert "is in use by process" in err
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)


def test_the_config_file_starts_the_same_run_again(folder, whole):
    train(folder, "--config", whole / "config.toml")
    require_same(folder / RUN, whole)


def test_events_have_each_step_once(folder):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    job = start(folder, *FLAGS, "--checkpoint-interval", 7)
    wait_for_steps(folder / RUN, 25, job)
    job.kill()
    job.communicate()
    time.sleep(0.3)
    train(folder, *FLAGS, "--checkpoint-interval", 7)
    events = event_accumulator.EventAccumulator(str(folder / RUN)).Reload()
    tags = {"Loss/train", "acc1/train", "acc5/train", "Loss/val", "acc1/val", "acc5/val", "lr"}
    assert tags <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("Loss/train")] == list(range(1, 61))
    assert [event.step for event in events.Scalars("acc1/val")] == [20, 40, 60]


