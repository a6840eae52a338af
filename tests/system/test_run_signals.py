"""Ctrl-C, SIGTERM and SIGHUP: passed on once, final the second time."""

import array
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest
from conftest import DAEMON, WAITING, wait_for

STUBBORN = """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
"""

POLITE = """
import os, signal, sys, time
def leave(number, frame):
    open("got%s.%d" % (os.environ["RANK"], number), "w").close()
    time.sleep(0.2)
    sys.exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, leave)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_signal_is_passed_on_and_gives_time(launcher, number):
    job = launcher.start("--nproc-per-node", 2, launcher.script(POLITE + WAITING))
    launcher.up(2)
    job.send_signal(number)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 128 + number
    assert sorted(p.name for p in launcher.folder.glob("got*")) == [f"got0.{number:d}", f"got1.{number:d}"]
    assert err.count("\n") == 1 and f"{number.name} received: passed on to 2 workers" in err
    launcher.assert_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_kills_everything_within_2_seconds(launcher, number):
    job = launcher.start("--nproc-per-node", 2, launcher.script(STUBBORN + DAEMON + WAITING))
    launcher.up(2)
    assert len(launcher.marked()) >= 6  # Launcher, agent, two workers, two daemons.
    job.send_signal(number)
    wait_for(lambda: os.read(job.stderr.fileno(), 100), what="a message")
    assert job.poll() is None
    job.send_signal(number)
    begin = time.monotonic()
    assert job.wait(5) == 128 + number
    launcher.assert_clean(max(0, 2 - (time.monotonic() - begin)))


def test_shutdown_timeout_ends_the_waiting(launcher):
    job = launcher.start(
        "--nproc-per-node", 2, "--shutdown-timeout", 1, launcher.script(STUBBORN + WAITING))
    launcher.up(2)
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 128 + 15
    assert "did not end within 1 s: killed" in err
    launcher.assert_clean(0)


def test_wait_for_workers_that_do_not_stop_is_explained(launcher):
    """Else a job whose first failure is not told yet looks as if it hung."""
    script = launcher.script(STUBBORN + """
import os, sys, time
if os.environ["RANK"] == "0":
    while not os.path.exists("up1"):
        time.sleep(0.01)
    sys.exit(3)
""" + WAITING)
    said = launcher.folder / "said"
    with said.open("w") as stderr:
        job = launcher.start("--nproc-per-node", 2, script, stderr=stderr)
    (stubborn,) = launcher.up(1)
    pid = stubborn.read_text()
    line = f"lockstep run: the job is being stopped; waiting up to 30 s for rank 1 (pid {pid}) to end\n"
    wait_for(lambda: said.read_text() == line, what="a word about the wait")
    assert job.poll() is None
    os.kill(int(pid), signal.SIGKILL)
    assert job.wait(5) == 3
    assert "root cause: rank 0" in said.read_text()
    launcher.assert_clean(0)


def test_signal_to_the_whole_control_group_counts_once(launcher):
    """As systemd and Slurm end a job: every process gets it."""
    job = launcher.start("--nproc-per-node", 2, launcher.script(POLITE + WAITING))
    launcher.up(2)
    for pid in launcher.marked():
        os.kill(pid, signal.SIGTERM)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 128 + signal.SIGTERM
    assert sorted(p.name for p in launcher.folder.glob("got*")) == ["got0.15", "got1.15"]
    assert err.count("SIGTERM received") == 1 and "store" not in err and "killed" not in err
    launcher.assert_clean()


def bytes_in(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


def test_slow_but_orderly_end_after_a_second_signal_keeps_its_code(launcher):
    """The reader of stdout takes nothing, so the launcher needs 2 s for its last words."""
    job = launcher.start("--tee", "1", "--nproc-per-node", 1, "sh", "-c",
                         "yes | head -c 3000000")
    wait_for(lambda: bytes_in(job.stdout) >= 65536, what="a full pipe")
    job.send_signal(signal.SIGTERM)
    wait_for(lambda: len(launcher.marked()) == 2, what="only the launcher and its agent")
    job.send_signal(signal.SIGTERM)
    assert job.wait(10) == 128 + signal.SIGTERM
    assert "was ended by" not in os.read(job.stderr.fileno(), 4096).decode()
    launcher.assert_clean(0)


def test_output_that_is_read_slowly_survives_two_signals(launcher):
    """The job is over; only its output is not yet out. An agent in that state is not killed after 1 s."""
    job = launcher.start("--tee", "1", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x | fold -w 1000; echo")
    wait_for(lambda: bytes_in(job.stdout) >= 60000, what="a full pipe")
    wait_for(lambda: len(launcher.marked()) == 2, what="only the launcher and its agent")
    time.sleep(0.2)  # For the agent's last word to its supervisor.
    for _ in range(2):
        job.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    text = ""
    for _ in range(3):
        time.sleep(0.4)
        text += os.read(job.stdout.fileno(), 50000).decode()
    text += job.stdout.read()
    assert (job.wait(10), text.count("x")) == (0, 300000)


def test_agent_that_dies_after_its_last_word_changes_no_exit_code(launcher):
    job = launcher.start("--tee", "1", "--nproc-per-node", 1, "sh", "-c", "yes | head -c 3000000")
    wait_for(lambda: bytes_in(job.stdout) >= 65536, what="a full pipe")
    job.send_signal(signal.SIGTERM)
    wait_for(lambda: len(launcher.marked()) == 2, what="only the launcher and its agent")
    time.sleep(0.2)  # As above.
    os.kill(launcher.agent_of(job), signal.SIGKILL)
    assert job.wait(10) == 128 + signal.SIGTERM
    assert "was ended by" not in os.read(job.stderr.fileno(), 4096).decode()
    launcher.assert_clean(0)


USER_SIGNALS = """
import os, signal
def note(number, frame):
    open("got%s.%d.%s" % (os.environ["RANK"], number, os.urandom(4).hex()), "w").close()
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
"""


def test_user_signals_reach_the_workers_and_the_job_goes_on(launcher):
    """Slurm's notice before the time is up: --signal=USR1@60."""
    waiting = WAITING.replace("time.sleep(100)", "while not os.path.exists('enough'): time.sleep(0.01)")
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
    waiting = WAITING.replace("time.sleep(100)", "sys.exit(child.wait())")
    child = "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'sleep 0.5'])\n"
    job = launcher.start(launcher.script(USER_SIGNALS + child + waiting))
    launcher.up(1)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(10) == 0
    assert len(list(launcher.folder.glob("got0.10.*"))) == 1


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


def test_nohup_is_respected(launcher):
    """torchrun dies with the terminal even under nohup."""
    job = launcher.start(launcher.script(WAITING), prefix=["nohup"], stdin=subprocess.DEVNULL)
    launcher.up(1)
    job.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert job.poll() is None
    job.terminate()
    assert job.wait(5) == 128 + 15


def in_terminal(launcher, script):
    """A job in the foreground of a terminal of its own; returns (pid, terminal)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(launcher.folder)
        command = launcher.command("--nproc-per-node", 2, script)
        os.execve(command[0], command, launcher.environment())
    return pid, terminal


def read_all(terminal):
    text = b""
    try:
        while block := os.read(terminal, 65536):
            text += block
    except OSError:  # The other side is closed.
        pass
    return text.decode()


def test_ctrl_c_in_a_terminal_reaches_each_worker_once(launcher):
    counting = POLITE.replace('open("got', 'open("c%d" % time.monotonic_ns(), "w"); open("got')
    pid, terminal = in_terminal(launcher, launcher.script(counting + WAITING))
    launcher.up(2)
    os.write(terminal, b"\x03")
    text = read_all(terminal)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert text.count("SIGINT received") == 1
    assert len(list(launcher.folder.glob("c*"))) == 2
    launcher.assert_clean()


def test_ctrl_c_twice_in_a_terminal_kills(launcher):
    pid, terminal = in_terminal(launcher, launcher.script(STUBBORN + DAEMON + WAITING))
    launcher.up(2)
    os.write(terminal, b"\x03")
    text = b""
    while b"received" not in text:
        text += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    begin = time.monotonic()
    _, status = os.waitpid(pid, 0)
    assert time.monotonic() - begin < 2, text
    assert os.waitstatus_to_exitcode(status) == 130
    launcher.assert_clean(1)
    os.close(terminal)


def test_closed_terminal_ends_the_job(launcher):
    pid, terminal = in_terminal(launcher, launcher.script(DAEMON + WAITING))
    launcher.up(2)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + 1
    launcher.assert_clean()
