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
from conftest import DAEMON, POLITE, WAITING, wait_for

STUBBORN = """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
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
