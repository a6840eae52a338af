"""Ranks that are told different things, and checkpoints that do not fit, are refused on all ranks. They share no disk."""

import signal
import socket
import subprocess
import time

import pytest

from conftest import stop
from training import checkpoint, require_same, start, train, wait_for_steps, write_idx

SHORT = ["data", "--model", "mlp", "--batch-size", 32, "--epochs", 1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    write_idx(folder / "data", train=320, test=64)
    return folder


def free_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def two_ranks(folder, flags, *others):
    """Their exit codes and errors; rank i has the flags others[i], too."""
    url = free_url()
    jobs = [start(folder, *flags, "--dist-url", url, "--world-size", 2, "--rank", rank, *other)
            for rank, other in enumerate(others)]
    errors = [job.communicate(timeout=60)[1] for job in jobs]
    return [job.returncode for job in jobs], errors


@pytest.mark.parametrize("flags, text", [
    (["--batch-size", 16], "samples in a step is '32' here and '64' on rank 0"),
    (["--grad-accum", 2], "--grad-accum is '2' here and '1' on rank 0"),
    (["--log-interval", 3], "--log-interval is '3' here and '50' on rank 0"),
    (["--checkpoint-interval", 3], "--checkpoint-interval is '3' here and '0' on rank 0"),
    (["--fast-dev-run", 3], "--fast-dev-run is '3' here and '0' on rank 0"),
    (["--lr", 3], "--lr is '3' here and not given on rank 0"),
    (["--strict"], "--strict is '1' here and '0' on rank 0"),
    (["--nonfinite", "skip"], "--nonfinite is 'skip' here and 'abort' on rank 0"),
], ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else "")
def test_ranks_with_other_flags_are_refused(shared, flags, text):
    codes, errors = two_ranks(shared, [*SHORT, "--output", "ranks"], [], flags)
    assert codes == [2, 2]
    assert all(text in error and "HINT" in error for error in errors)
    assert not (shared / "ranks").exists()


def test_what_rank_0_finds_wrong_all_ranks_tell(shared):
    codes, errors = two_ranks(shared, [*SHORT, "--eval-only", "--resume", "nothing.pt"], [], [])
    assert codes == [2, 2]
    assert all("there is no 'nothing.pt'" in error for error in errors)


def test_weights_that_do_not_fit_are_not_evaluated(shared, tmp_path):
    train(shared, *SHORT, "--output", "fit")
    path = shared / "fit/data-mlp/checkpoints/last.pt"
    rows = "\n".join(",".join("1" * 784) + f",{i % 3}" for i in range(40))
    (tmp_path / "three.csv").write_text(rows + "\n")
    for flag in ("--resume", "--init-weights"):
        err = train(tmp_path, "three.csv", "--model", "mlp", "--batch-size", 4, "--eval-only", flag, path, code=2).stderr
        assert "the checkpoint has no" in err and "HINT" in err


def test_samples_that_were_learned_are_not_evaluated(tmp_path):
    rows = "\n".join(f"{i % 17},{i % 5},{int(i % 17 > 8)}" for i in range(200))
    (tmp_path / "points.csv").write_text(rows + "\n")
    train(tmp_path, "points.csv", "--batch-size", 20, "--epochs", 1, "--seed", 1)
    run = "runs/points-mlp"
    assert "of 20 samples" in train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--seed", 1).stdout
    err = train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--resume", run, code=2).stderr
    assert "--seed is '0' here and '1' there" in err and "HINT" in err
    err = train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--seed", 1, "--val-split", 0.5, code=2).stderr
    assert "--val-split is '0.5' here and '0.1' there" in err


def on_two_disks(folders, flags):
    """One rank in each folder, as on two machines."""
    url = free_url()
    return [start(folder, *flags, "--dist-url", url, "--world-size", 2, "--rank", rank) for rank, folder in enumerate(folders)]


def test_ranks_share_no_disk(tmp_path):
    """Rank 0 alone writes, and reads for the others: a run that was stopped goes on to the same bits."""
    flags = ["data", "--batch-size", 16, "--epochs", 3, "--log-interval", 1]
    write_idx(tmp_path / "data")
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        (folder / "data").symlink_to(tmp_path / "data")
    train(tmp_path, *flags, "--nproc", 2)
    run = folders[0] / "runs/data-convnet"
    jobs = on_two_disks(folders, flags)
    wait_for_steps(run, 25, jobs[0])
    jobs[1].send_signal(signal.SIGTERM)  # All ranks stop for one.
    ends = [job.communicate(timeout=60) for job in jobs]
    assert [job.returncode for job in jobs] == [143, 143], ends
    assert 0 < checkpoint(run)["metrics"]["step_in_epoch"] < 20
    jobs = on_two_disks(folders, flags)
    ends = [job.communicate(timeout=60) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], ends
    assert "resumed from" in ends[0][0] and ends[1][0] == ""
    assert [path.name for path in folders[1].iterdir()] == ["data"], "what rank 1 left"
    require_same(run, tmp_path / "runs/data-convnet")


def test_the_timeout_ends_the_wait_for_a_rank(shared):
    begin = time.monotonic()
    done = train(shared, *SHORT, "--dist-url", free_url(), "--world-size", 2, "--rank", 0, "--timeout", 2, code=1)
    assert 2 <= time.monotonic() - begin < 20
    assert "rank 1" in done.stderr and "2 s" in done.stderr


@pytest.mark.parametrize("is_told_before", [False, True], ids=["", "told_before"])
def test_who_only_noticed_lets_its_launcher_hear_of_the_other_first(shared, tmp_path, is_told_before):
    """Else the launcher would name this rank, and stop the other one before that has told its reason."""
    long = [*SHORT, "--epochs", 1000, "--output", tmp_path, "--dist-url", free_url(), "--world-size", 2]
    job = start(shared, *long, "--rank", 0)
    noticed = start(shared, *long, "--rank", 1, env={"TORCHELASTIC_ERROR_FILE": tmp_path / "error.json"})
    try:
        wait_for_steps(tmp_path / "data-mlp", 1, job)
        if is_told_before:  # By a launcher that has seen the other one end first.
            stop(job.pid)
            noticed.terminate()
        job.kill()
        while "lockstep train: " not in (line := noticed.stderr.readline()):
            assert line, "it ended without a word"
        assert "rank 0" in line
        if is_told_before:
            noticed.wait(timeout=4)
            assert noticed.returncode == 1
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                noticed.wait(timeout=0.5)
            noticed.terminate()
            noticed.wait(timeout=2)
            assert noticed.returncode == -signal.SIGTERM
        assert not (tmp_path / "error.json").exists()
    finally:
        for process in (job, noticed):
            process.kill()
            process.communicate()
