"""SIGUSR1 and SIGUSR2, which only the workers get, and --signals-to-handle."""

import signal
import subprocess
import sys
import time

import pytest
from conftest import POLITE, WAIT, WAITING, wait_for

USER_SIGNALS = """
import os, signal
def note(number, frame):
    open("got%s.%d.%s" % (os.environ["RANK"], number, os.urandom(4).hex()), "w").close()
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
"""


def test_user_signals_reach_the_workers_and_the_job_goes_on(launcher):
    """Slurm's notice before the time is up: --signal=USR1@60."""
    waiting = WAITING.replace(WAIT, "while not os.path.exists('enough'): time.sleep(0.01)")
    job = launcher.start("--nproc-per-node", 2, launcher.script(USER_SIGNALS + waiting))
    launcher.up(2)
    for count, number in enumerate((signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1), 1):
        job.send_signal(number)
        launcher.up(2 * count, "got*")
    (launcher.folder / "enough").touch()
    _, err = job.communicate(timeout=10)
    assert (job.returncode, err) == (0, "")
    kinds = sorted(p.name.rsplit(".", 1)[0] for p in launcher.folder.glob("got*"))
    assert kinds == ["got0.10", "got0.10", "got0.12", "got1.10", "got1.10", "got1.12"]
    launcher.assert_clean()


def test_user_signal_does_not_touch_the_children_of_a_worker(launcher):
    waiting = WAITING.replace(WAIT, "sys.exit(child.wait())")
    child = "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'sleep 0.5'])\n"
    job = launcher.start(launcher.script(USER_SIGNALS + child + waiting))
    launcher.up(1)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(10) == 0
    assert len(list(launcher.folder.glob("got0.10.*"))) == 1


def test_nothing_is_restarted_after_a_user_signal_that_ended_a_worker(launcher):
    job = launcher.start("--nproc-per-node", 2, "--max-restarts", 3, launcher.script(WAITING))
    launcher.up(2)
    job.send_signal(signal.SIGUSR1)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 128 + signal.SIGUSR1
    assert "no restart: the job was asked to stop by SIGUSR1" in err and "restarting" not in err
    launcher.assert_clean()


@pytest.mark.parametrize("late", [False, True])
def test_a_failure_soon_after_a_user_signal_is_its_consequence(launcher, late):
    """Later than --shutdown-timeout the program has gone on, and used the signal for something else."""
    fails = "while not os.path.exists('fail'): time.sleep(0.01)\nos._exit(6)"
    job = launcher.start("--max-restarts", 1, "--shutdown-timeout", 1 if late else 60,
                         launcher.script(USER_SIGNALS + WAITING.replace(WAIT, fails)))
    launcher.up(1)
    job.send_signal(signal.SIGUSR1)
    launcher.up(1, "got*")
    time.sleep(1.5 if late else 0)
    (launcher.folder / "fail").touch()
    _, err = job.communicate(timeout=10)
    assert job.returncode == 6
    assert err.count("restarting") == late
    assert ("asked to stop" in err) == (not late)


def test_signals_to_handle_adds_others(launcher):
    job = launcher.start("--signals-to-handle", "SIGUSR1,SIGTERM", launcher.script(POLITE + WAITING))
    launcher.up(1)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(5) == 128 + signal.SIGUSR1
    assert (launcher.folder / f"got0.{signal.SIGUSR1:d}").exists()


def torchrun(launcher, *arguments):
    """Started and with its one worker up; it needs seconds to import torch, on a busy machine many."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *map(str, arguments)]
    job = subprocess.Popen(command, env=launcher.environment(), cwd=launcher.folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    launcher.jobs.append(job)
    wait_for(lambda: list(launcher.folder.glob("up*")), 120, "a worker of torchrun")
    return job


def test_signals_to_handle_is_spelled_as_in_torchrun(launcher, monkeypatch):
    from torch.distributed.run import get_args_parser
    show = ("sh", "-c", "echo $TORCHELASTIC_SIGNALS_TO_HANDLE")
    for flags in ([], ["--signals-to-handle", "SIGUSR1,SIGTERM"], ["--signals_to_handle= SIGUSR1 , SIGINT"]):
        theirs = get_args_parser().parse_args([*flags, "x"]).signals_to_handle
        assert launcher.run(*flags, *show).stdout == theirs.strip() + "\n"
    monkeypatch.setenv("PET_SIGNALS_TO_HANDLE", "SIGUSR2")
    theirs = get_args_parser().parse_args(["x"]).signals_to_handle
    assert launcher.run(*show, env={"PET_SIGNALS_TO_HANDLE": "SIGUSR2"}).stdout == theirs + "\n" == "SIGUSR2\n"


def test_signals_to_handle_knows_the_names_that_torchrun_knows(launcher):
    names = [name for name in dir(signal) if name.startswith("SIG") and not name.startswith("SIG_")]
    assert {"SIGTERM", "SIGUSR1", "SIGIO", "SIGPOLL", "SIGRTMIN"} <= set(names)
    refused = {name for name in names if launcher.run("--signals-to-handle", name, "true").returncode != 0}
    # The first two nobody can handle. By the others, two names of one, the launcher hears of its workers' end.
    assert refused == {"SIGKILL", "SIGSTOP", "SIGCHLD", "SIGCLD"}


@pytest.mark.parametrize("which", ["lockstep run", "torchrun"])
def test_a_signal_of_the_list_is_passed_on_as_by_torchrun(launcher, which):
    flags = ("--signals-to-handle", "SIGUSR1,SIGTERM", launcher.script(POLITE + WAITING))
    job = torchrun(launcher, *flags) if which == "torchrun" else launcher.start(*flags)
    launcher.up(1)
    job.send_signal(signal.SIGUSR1)
    code = job.wait(60)
    assert [p.name for p in launcher.folder.glob("got*")] == [f"got0.{signal.SIGUSR1:d}"]
    assert code == (1 if which == "torchrun" else 128 + signal.SIGUSR1)


def test_torchrun_itself_ends_by_a_user_signal_that_is_not_in_the_list(launcher):
    """Why we pass SIGUSR1 on by default: docs/guides/launcher.md says so."""
    job = torchrun(launcher, launcher.script(USER_SIGNALS + WAITING))
    job.send_signal(signal.SIGUSR1)
    assert job.wait(60) == -signal.SIGUSR1
    assert list(launcher.folder.glob("got*")) == []
