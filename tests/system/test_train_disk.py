"""A disk that fails costs files, never the run; the last good checkpoint stays. Who asks for the exit code learns it."""

import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from marks import also_long
from training import checkpoint, command, environment, start, train, write_idx

RUN = "runs/data-convnet"
# 20 steps an epoch: enough that the disk fails while the run goes on.
FLAGS = ["data", "--batch-size", 32, "--epochs", 10, "--log-interval", 1, "--checkpoint-interval", 5]


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "data")
    return tmp_path


@pytest.fixture
def small_disk(folder):
    """A file system of its own at runs/; others do not see it fill."""
    runs = folder / "runs"
    runs.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", runs], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this user may not mount: " + done.stderr)
    yield runs
    subprocess.run(["umount", "-l", runs], check=True)


def wait_for_checkpoint(run, job):
    while not (run / "checkpoints/last.pt").exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)


def end_of(job):
    out, err = job.communicate(timeout=120)
    assert job.returncode == 1, err
    assert "root cause: rank 1" not in err, "rank 0 alone has files"
    assert "finished 10 epochs, but the last checkpoint could not be saved" in out
    return out


def fill(disk):
    with open(disk / "filler", "ab", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk(folder, small_disk):
    """Rank 0 alone has files; the other goes on with it."""
    flags, steps = [*FLAGS, "--nproc", 2], 100
    job = start(folder, *flags)
    run = folder / RUN
    wait_for_checkpoint(run, job)
    fill(small_disk)
    out = end_of(job)
    assert "No space left on device" in out and "training goes on" in out
    assert out.partition("finished 10 epochs")[2].count("a checkpoint was not saved") == 1, "each warning once"
    assert not (run / "finished").exists()
    step = checkpoint(run)["metrics"]["step"]
    assert 0 < step < steps
    (small_disk / "filler").unlink()
    out = train(folder, *flags).stdout
    assert "resumed from" in out and checkpoint(run)["metrics"]["step"] == steps
    assert (run / "finished").exists()


@pytest.mark.parametrize("number, flags", [
    (signal.SIGUSR1, ["--nproc", 2, "--max-restarts", 3]),
    *also_long((signal.SIGTERM, []), (signal.SIGTERM, ["--nproc", 2]))])
def test_a_stop_on_a_full_disk_is_not_told_as_resumable(folder, small_disk, number, flags):
    job = start(folder, *FLAGS, "--epochs", 1000, *flags)
    run = folder / RUN
    wait_for_checkpoint(run, job)
    fill(small_disk)
    while "a checkpoint was not saved" not in (line := job.stdout.readline()):
        assert line, job.communicate()
        fill(small_disk)  # A checkpoint that was being written took the place of an older one.
    fill(small_disk)
    job.send_signal(number)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 74, err
    assert re.search(r"stopped by SIG\w+ in epoch \d+, step \d+, but the last checkpoint could not be saved", out), out
    assert "goes on from the last checkpoint that was saved" in out and "goes on from here" not in out
    assert "restarting" not in err and "the same command goes on" not in err
    (small_disk / "filler").unlink()
    job = start(folder, *FLAGS, "--epochs", 1000, *flags)
    while "resumed from" not in (line := job.stdout.readline()):
        assert line, job.communicate()
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 143, err
    assert "goes on from here" in out


def test_a_stop_without_a_root_for_runs_starts_anew(folder):
    job = start(folder, *FLAGS, "--epochs", 1000, "--output", "/proc/runs")
    while "  1/20" not in (line := job.stdout.readline()):
        assert line, job.communicate()
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 74, err
    assert "nothing was saved: the same command starts anew" in out


def test_a_full_disk_ends_a_strict_run(folder, small_disk):
    job = start(folder, *FLAGS, "--strict", "--nproc", 2)
    run = folder / RUN
    wait_for_checkpoint(run, job)
    fill(small_disk)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 1, err
    assert "--strict: a checkpoint was not saved" in err and "No space left on device" in err
    assert "root cause: rank 0 " in err, "the only one that writes"
    assert "finished" not in out and "training goes on" not in out
    assert 0 < checkpoint(run)["metrics"]["step"] < 100
    assert not list((run / "checkpoints").glob(".*")), "no temporary file"
    (small_disk / "filler").unlink()
    out = train(folder, *FLAGS, "--strict", "--nproc", 2).stdout
    assert "resumed from" in out and (run / "finished").exists()


def test_a_folder_that_becomes_read_only(folder):
    """By an attribute, since root writes whatever the mode says, and open logs keep a disk from a read-only remount."""
    job = start(folder, *FLAGS)
    run = folder / RUN
    wait_for_checkpoint(run, job)
    done = subprocess.run(["chattr", "+i", run / "checkpoints"], capture_output=True, text=True)
    out = end_of(job)
    if done.returncode != 0:
        pytest.skip("this file system has no immutable folders: " + done.stderr)
    subprocess.run(["chattr", "-i", run / "checkpoints"], check=True)
    assert "Operation not permitted" in out and "training goes on" in out
    assert 0 < checkpoint(run)["metrics"]["step"] < 200
    assert not (run / "finished").exists()


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_folder_that_is_removed(folder, ranks):
    job = start(folder, *FLAGS, "--nproc", ranks)
    wait_for_checkpoint(folder / RUN, job)
    shutil.rmtree(folder / "runs", ignore_errors=True)
    while (folder / "runs").exists():
        shutil.rmtree(folder / "runs", ignore_errors=True)
    out = end_of(job)
    assert "training goes on" in out
    assert not (folder / RUN / "checkpoints/last.pt").exists()
    assert "  files" not in out, "none is left"


def test_files_that_get_too_large(folder):
    """As under `ulimit -f`, whose signal would end the run without a word; stdout is a file, too."""
    with open(folder / "out", "w+") as out:
        done = subprocess.run(command(*FLAGS, "--output", "limited"), cwd=folder, env=environment(), stdout=out,
                              stderr=subprocess.PIPE, text=True, timeout=120,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
        out.seek(0)
        text = out.read()
    assert done.returncode == 1, (done.returncode, done.stderr)  # Its checkpoints are too large.
    assert "File too large" in text + done.stderr, (text, done.stderr)


def test_a_stdout_that_takes_nothing(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(*FLAGS), cwd=folder, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / RUN / "finished").exists()
    done = subprocess.run(command(*FLAGS, "--eval-only"), cwd=folder, env=environment(), stdout=open("/dev/full", "w"),
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "stdout cannot be written" in done.stderr


def test_a_stdout_that_is_closed(folder):
    job = start(folder, *FLAGS)
    job.stdout.close()
    err = job.stderr.read()
    assert job.wait(timeout=60) == 0, err
    assert (folder / RUN / "finished").exists()
