"""kill -9 of either half of the launcher leaves nothing: no process, no file, no socket."""

import os
import signal
import time

from conftest import DAEMON, WAITING, stop, wait_for


def test_kill_of_the_launcher_takes_everything_along(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(DAEMON + WAITING))
    launcher.up(2)
    job.kill()
    begin = time.monotonic()
    job.wait()
    launcher.assert_clean(1)
    assert time.monotonic() - begin < 1


def test_kill_of_the_agent_takes_everything_along(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(DAEMON + WAITING))
    launcher.up(2)
    agent = launcher.agent_of(job)
    os.kill(agent, signal.SIGKILL)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 128 + 9
    assert f"agent (pid {agent}) was ended by SIGKILL" in err
    launcher.assert_clean(0)


def test_stopped_agent_cannot_survive_two_signals(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(DAEMON + WAITING))
    launcher.up(2)
    stop(launcher.agent_of(job))
    job.terminate()
    time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    begin = time.monotonic()
    job.wait(5)
    assert time.monotonic() - begin < 2
    launcher.assert_clean(0)


def test_stopped_agent_wakes_and_cleans_up_when_the_launcher_is_killed(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(DAEMON + WAITING))
    launcher.up(2)
    agent = launcher.agent_of(job)
    stop(agent)
    job.kill()
    job.wait()
    launcher.assert_clean(2)


def test_kill_while_starting(launcher):
    script = launcher.script(DAEMON + WAITING)
    for delay in (0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05):
        job = launcher.start("--nproc-per-node", 4, script)
        time.sleep(delay)
        job.kill()
        job.wait()
        launcher.assert_clean(2)


def test_daemons_of_a_failed_worker_are_gone_before_a_restart(launcher):
    script = launcher.script(
        DAEMON.replace('"w").close()', '"w").write(str(os.getpid()))')
        + """
import sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.rename("daemon0", "first")
    sys.exit(4)
sys.exit(5 if os.path.exists("/proc/" + open("first").read()) else 0)
"""
    )
    assert launcher.run("--max-restarts", 1, script).returncode == 0
    launcher.assert_clean(0)


def test_worker_killed_by_hand_is_reported(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(WAITING))
    files = launcher.up(2)
    os.kill(int(files[1].read_text()), signal.SIGKILL)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 137
    assert "root cause: rank 1 (local rank 1)" in err and "SIGKILL (signal 9)" in err
    wait_for(lambda: not launcher.marked(), 1)
