"""--max-restarts: new ranks go on where the job was, whatever --resume says."""

import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time

import pytest

from marks import also_long
from training import BIN, checkpoint, command, environment, metrics, ranks, start, train, wait_for_steps, weights, write_idx

# 20 steps an epoch: enough that a rank dies while the run goes on.
FLAGS = ["data", "--nproc", 2, "--batch-size", 16, "--epochs", 10, "--log-interval", 1, "--checkpoint-interval", 5]
RUN = "runs/data-convnet"


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "data")
    return tmp_path


def program_in(folder):
    """The pid of the one lockstep-train there."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder) and os.readlink(f"/proc/{pid}/exe").endswith("/lockstep-train"):
                return int(pid)
    raise AssertionError("it does not run")


def keep_lines(run, lines):
    """So that those of the next start can be waited for."""
    text = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(text[:lines]))


def kill_at_step(folder, run, step, job):
    path = folder / run / "metrics.jsonl"
    while not path.exists() or f'{{"step": {step},' not in path.read_text():
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)
    os.kill(ranks(folder)[1], signal.SIGKILL)


@pytest.mark.parametrize("resume", ["no", *also_long("path", "best")])
def test_a_restart_goes_on_from_the_jobs_own_checkpoint(folder, resume):
    train(folder, *FLAGS)
    first = folder / "first"
    first.mkdir()
    saved = first / "mid.pt"
    job = start(folder, *FLAGS, "--output", "first")
    wait_for_steps(first / "data-convnet", 10, job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    (first / "data-convnet/checkpoints/last.pt").rename(saved)
    flag, run = {"path": (saved, "runs/data-convnet-2"), "best": ("best", RUN), "no": ("no", "runs/data-convnet-2")}[resume]
    before = {path.name for path in (folder / "runs").iterdir()}
    if resume == "best":
        (folder / RUN / "checkpoints/best.pt").write_bytes(saved.read_bytes())
        keep_lines(folder / RUN, 5)
    job = start(folder, *FLAGS, "--resume", flag, "--max-restarts", 2)
    # With best in its first epoch, before there is a better one.
    kill_at_step(folder, run, 18 if resume == "best" else 48, job)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "restarting all workers" in err
    steps = [line["step"] for line in metrics(folder / run) if "loss" in line]
    assert steps[-1] == 200 and len(steps) == len(set(steps))
    after = {path.name for path in (folder / "runs").iterdir()}
    assert after - before == (set() if resume == "best" else {"data-convnet-2"})
    # The second attempt went on from a later step than the first began with.
    epoch, step = map(int, re.findall(r"resumed from .*: epoch (\d+), step (\d+)", out)[-1])
    assert 20 * (epoch - 1) + step >= (15 if resume == "best" else 45)
    assert weights(folder / run) == weights(folder / RUN)


def test_a_job_that_was_finished_is_not_trained_again(folder):
    """Rank 0 cannot print its summary, because nobody reads the pipe, when rank 1 dies."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    job = start(folder, "data", "--nproc", 2, "--batch-size", 64, "--epochs", 1, "--max-restarts", 2, stdout=write)
    out = b""
    while b"epoch 1 of 1: " not in out:
        out += os.read(read, 4096)
    filler = threading.Thread(target=os.write, args=(write, b"." * 100_000))
    filler.start()
    while not (folder / RUN / "finished").exists():
        assert job.poll() is None
        time.sleep(0.001)
    os.kill(ranks(folder)[1], signal.SIGKILL)
    rest = threading.Thread(target=lambda: chunks.extend(iter(lambda: os.read(read, 4096), b"")))
    chunks = []
    rest.start()
    err = job.communicate(timeout=60)[1]
    filler.join()
    os.close(write)
    rest.join()
    os.close(read)
    assert job.returncode == 0, err
    assert "restarting all workers" in err
    assert [path.name for path in (folder / "runs").iterdir()] == ["data-convnet"]
    assert b"nothing is left to train" in b"".join(chunks)


def test_a_script_around_the_program_is_no_other_job(folder):
    """In each attempt the script is another process, and the parent of the rank."""
    script = folder / "wrapper.sh"
    script.write_text(f"#!/bin/sh\n{shlex.join(command(*FLAGS[:1], *FLAGS[3:]))} --resume no\nexit $?\n")
    script.chmod(0o700)
    job = subprocess.Popen([BIN / "lockstep", "run", "--max-restarts", "1", script], cwd=folder, env=environment(),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_steps(folder / RUN, 12, job)
    os.kill(program_in(folder), signal.SIGKILL)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "restarting all workers" in err and "resumed from" in out
    assert [path.name for path in (folder / "runs").iterdir()] == ["data-convnet"]


@pytest.mark.long
def test_a_finished_run_that_goes_on_is_not_finished(folder):
    train(folder, *FLAGS)
    run = folder / RUN
    # As if the second epoch had been the best one, in its middle.
    job = start(folder, *FLAGS, "--output", "part")
    wait_for_steps(folder / "part/data-convnet", 25, job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    (run / "checkpoints/best.pt").write_bytes((folder / "part/data-convnet/checkpoints/last.pt").read_bytes())
    keep_lines(run, 5)
    job = start(folder, *FLAGS, "--resume", "best")
    wait_for_steps(run, 15, job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    assert not (run / "finished").exists()
    step = checkpoint(run)["metrics"]["step"]
    assert 20 < step < 200
    out = train(folder, *FLAGS).stdout
    assert f"step {step % 20}" in out and (run / "finished").exists()
    assert [path.name for path in (folder / "runs").iterdir()] == ["data-convnet"]


def test_wrong_flags_and_stops_in_order_are_not_repeated(folder):
    err = train(folder, "nodata", "--nproc", 2, "--max-restarts", 5, code=2).stderr
    assert "there is no data 'nodata'" in err and "restarting" not in err
    job = start(folder, *FLAGS, "--max-restarts", 5)
    wait_for_steps(folder / RUN, 10, job)
    os.kill(ranks(folder)[1], signal.SIGTERM)  # A rank alone; all of them stop.
    err = job.communicate(timeout=60)[1]
    assert job.returncode == 143 and "restarting" not in err
