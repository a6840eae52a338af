"""Ports: none to choose, none outside loopback, a taken one is a clear error."""

import pathlib
import signal
import socket
import os

from conftest import BIN, WAITING, wait_for


def listeners_of(pids):
    """(address, port) of every TCP socket on which one of the processes listens."""
    inodes = set()
    for pid in pids:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(fd)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for family in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                if family == "tcp":
                    address = socket.inet_ntoa(bytes.fromhex(address)[::-1])
                found.add((address, int(port, 16)))
    return found


def test_one_node_listens_on_loopback_only(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(
        "import os; open('port', 'w').write(os.environ['MASTER_PORT'])\n" + WAITING))
    launcher.up(2)
    port = int((launcher.folder / "port").read_text())
    assert listeners_of(launcher.marked()) == {("127.0.0.1", port)}
    job.terminate()
    job.wait(5)
    launcher.assert_clean(1)


def test_taken_port_is_a_clear_error(launcher):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = launcher.run("--master-port", port, "true")
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: the port is taken by another program" in done.stderr
    launcher.assert_clean(0)


def test_port_given_by_hand_is_used(launcher):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = launcher.run("--master_port", port, "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT")
    assert done.stdout == f"127.0.0.1 {port}\n"
    done = launcher.run("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "sh", "-c", "echo $MASTER_PORT")
    assert done.returncode == 0 and int(done.stdout) > 0


def test_hundred_jobs_at_once_never_collide(launcher):
    """None ends before all are there, so a port that two of them have belongs to jobs alive together."""
    wait = "echo $MASTER_PORT; touch up$JOB; while [ ! -e enough ]; do sleep 0.2; done"
    jobs = [launcher.start("--nproc-per-node", 1, "sh", "-c", wait, env={"JOB": str(i)}) for i in range(100)]
    wait_for(lambda: len(list(launcher.folder.glob("up*"))) == 100, 120, "100 jobs at once")
    (launcher.folder / "enough").touch()
    results = [(*job.communicate(timeout=120), job.returncode) for job in jobs]
    # Not all of stderr: where no name server answers, the store's TCPStore complains of that.
    assert [r for r in results if r[2] != 0 or "lockstep" in r[1]] == []
    ports = [int(out) for out, _, _ in results]
    assert len(set(ports)) == 100, sorted(ports)
    launcher.assert_clean()


def test_death_of_the_store_is_an_error(launcher):
    job = launcher.start("--nproc-per-node", 2, launcher.script(WAITING))
    launcher.up(2)
    store = [pid for pid, command in launcher.marked().items() if "lockstep-store" in command]
    assert len(store) == 1
    os.kill(store[0], signal.SIGKILL)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 1
    assert f"the store process of the job died: pid {store[0]}, SIGKILL" in err
    launcher.assert_clean(0)


def test_death_of_the_store_restarts_the_job_with_a_new_one(launcher):
    job = launcher.start("--nproc-per-node", 2, "--max-restarts", 1, "sh", "-c",
                         "touch up$RANK; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; exec sleep 100")
    launcher.up(2)
    def stores():
        return [pid for pid, command in launcher.marked().items() if "lockstep-store" in command]
    wait_for(stores, what="the store process")
    store = stores()[0]
    os.kill(store, signal.SIGKILL)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 0, err
    assert [line for line in err.splitlines() if line.startswith("lockstep run: ")] == [
        f"lockstep run: the store process of the job died (pid {store}, SIGKILL): "
        "all workers are stopped by SIGTERM",
        f"lockstep run: the store process of the job died: pid {store}, SIGKILL; "
        "restarting all workers (restart 1 of 1)"]
    launcher.assert_clean(0)


def test_missing_store_program_is_noticed_when_it_is_needed(launcher):
    alone = launcher.folder / "bin"
    alone.mkdir()
    (alone / "lockstep").write_bytes((BIN / "lockstep").read_bytes())
    (alone / "lockstep").chmod(0o755)
    prefix = [alone / "lockstep", "run"]
    asking = ("import os, socket, time\n"
              "socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT'])))\ntime.sleep(100)")
    job = launcher.start(prefix=["env"])  # Keeps the helper's bookkeeping simple.
    job.wait()
    import subprocess
    done = subprocess.run([*prefix, launcher.script(asking)], env=launcher.environment(),
                          capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and "lockstep-store" in done.stderr
    done = subprocess.run([*prefix, "true"], env=launcher.environment(), capture_output=True, timeout=10)
    assert done.returncode == 0
    wait_for(lambda: not launcher.marked(), 1)
