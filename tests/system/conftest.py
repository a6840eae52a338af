"""A launcher for each test, and workers for it to start."""

import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_launcher import BIN, Launcher, state_of, stop, wait_for  # noqa: E402, F401


@pytest.fixture(autouse=True)
def own_folder_of_mpirun(monkeypatch):
    """mpiruns that start and end at the same time make and remove one folder in /tmp, and some fail by that."""
    with tempfile.TemporaryDirectory(prefix="mpi", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("OMPI_MCA_orte_tmpdir_base", folder)
        yield pathlib.Path(folder)


@pytest.fixture
def launcher(tmp_path):
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.cleanup()


# A worker that says it is up, in a file named after its rank, and then waits for its end. Python hears of a signal
# between two calls: one that comes right before a long sleep would have to wait for the end of that.
WAIT = "for _ in range(2000): time.sleep(0.05)"
WAITING = """
import os, pathlib, sys, time
pathlib.Path("new" + os.environ["RANK"]).write_text(str(os.getpid()))
os.rename("new" + os.environ["RANK"], "up" + os.environ["RANK"])
""" + WAIT + "\n"

# The same, with a child in a session of its own whose parent is gone: hard to find, harder to kill.
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        open("daemon" + os.environ["RANK"], "w").close()
        time.sleep(100)
    os._exit(0)
while not os.path.exists("daemon" + os.environ["RANK"]):
    time.sleep(0.01)
"""

# A worker that notes the signal which it gets, in a file, and then leaves in order.
POLITE = """
import os, signal, sys, time
def leave(number, frame):
    open("got%s.%d" % (os.environ["RANK"], number), "w").close()
    time.sleep(0.2)
    sys.exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, leave)
"""
