"""The output of ranks that `lockstep train` starts is kept in the folder of the run."""

import os
import pty
import signal
import subprocess

import pytest

from training import checkpoint, command, environment, ranks, start, train, wait_for_steps, write_idx

FLAGS = ["data", "--nproc", 2, "--batch-size", 32, "--epochs", 1, "--log-interval", 1]
RUN = "runs/data-convnet"


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "data", train=320, test=64)
    return tmp_path


def logs_of(folder, attempt=0):
    """By local rank and stream, of the one job of the run."""
    [job] = (folder / RUN / "log").iterdir()
    return {(int(path.parent.name), path.stem): path.read_text() for path in (job / f"attempt_{attempt}").glob("*/*.log")}


def test_each_rank_has_its_streams(folder):
    done = train(folder, *FLAGS)
    logs = logs_of(folder)
    assert set(logs) == {(rank, stream) for rank in (0, 1) for stream in ("stdout", "stderr")}
    assert logs[0, "stdout"] == done.stdout
    assert "finished 1 epoch" in logs[0, "stdout"] and logs[1, "stdout"] == ""
    assert logs[0, "stderr"] + logs[1, "stderr"] == done.stderr
    assert f"  {RUN}/log\n" in done.stdout


def test_a_rank_that_dies_leaves_the_logs(folder):
    job = start(folder, *FLAGS, "--epochs", 1000, "--checkpoint-interval", 3)
    wait_for_steps(folder / RUN, 5, job)
    os.kill(ranks(folder)[1], signal.SIGKILL)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGKILL
    step = checkpoint(folder / RUN)["metrics"]["step"]
    assert f"HINT: the same command goes on from step {step}, " in out
    assert "rank 1" in logs_of(folder)[0, "stderr"], "whom rank 0 lost"
    assert f"{folder}/{RUN}/log/" in err, "the report names the log"


def test_a_folder_for_logs_may_be_given(folder):
    train(folder, *FLAGS, "--log-dir", "logs")
    assert not (folder / RUN / "log").exists()
    (own,) = (folder / "logs").glob("*/attempt_0/0/stdout.log")
    assert "finished 1 epoch" in own.read_text()


def test_a_terminal_has_its_progress_line(folder):
    """Rank 0 sees the terminal itself; its log has plain lines."""
    ours, theirs = pty.openpty()
    job = subprocess.Popen(command(*FLAGS), cwd=folder, env=environment({"TERM": "xterm", "COLUMNS": "80"}), stdout=theirs,
                           stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    with open(ours, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(4096):
                shown += part
        except OSError:
            pass  # The last writer has closed it.
    assert job.wait(timeout=60) == 0, job.stderr.read()
    assert b"\r\x1b[K" in shown
    log = logs_of(folder)[0, "stdout"]
    assert "\x1b" not in log and "finished 1 epoch" in log and "epoch 1/1  5/5" in log


def test_a_full_disk_costs_the_logs_alone(folder):
    (folder / "runs").mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder / "runs"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this user may not mount: " + done.stderr)
    try:
        (folder / "runs/filler").write_bytes(bytes(60 << 10))
        done = train(folder, *FLAGS, code=1)  # Its checkpoint cannot be saved, either.
        assert "No space left on device" in done.stdout and "finished 1 epoch" in done.stdout
    finally:
        subprocess.run(["umount", "-l", folder / "runs"], check=True)


def test_other_starts_keep_no_logs(folder):
    train(folder, *FLAGS, "--nproc", 1)
    assert not (folder / RUN / "log").exists()
    out = train(folder, *FLAGS, "--fast-dev-run", 2, "--output", "none").stdout
    assert "finished" in out and not (folder / "none").exists()
