"""The same program joins every kind of job; and leaves main cleanly whatever it forgot."""
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from conftest import wait_for

BIN = os.environ["LOCKSTEP_BIN"]
LOCKSTEP = os.path.join(BIN, "lockstep")
ALL_REDUCE = os.path.join(BIN, "examples", "all_reduce")
PYTHON_RANK = os.path.join(os.path.dirname(__file__), "programs", "all_reduce.py")
LIMIT = 120


def clean_environment(**more):
    """Without what this test itself may have been started by."""
    prefixes = ("SLURM_", "OMPI_COMM_", "PMI_", "PMIX_", "PBS_", "TORCHELASTIC_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in names}
    return {**kept, **more}


def start(command, **environment):
    return subprocess.Popen(command, env=clean_environment(**environment), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(*processes):
    """The lines of all processes together; fails unless every one of them ends with 0 and a silent stderr."""
    lines = []
    for process in processes:
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, out + err
        assert err == ""
        lines += out.splitlines()
    return sorted(lines)


def assert_two_ranks(lines, found_by):
    assert len(lines) == 2, lines
    for rank, line in enumerate(lines):
        assert line.startswith(f"rank {rank} of 2, found by: {found_by}"), line
        assert line.endswith("the sum of 1..2 is 3"), line


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_under_lockstep_run():
    assert_two_ranks(finish(start([LOCKSTEP, "run", "--nproc-per-node", "2", ALL_REDUCE])), "RANK and WORLD_SIZE")


def test_under_pythons_torchrun():
    job = start([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                 "--no-python", ALL_REDUCE], OMP_NUM_THREADS="1")
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 0, err
    assert_two_ranks(sorted(out.splitlines()), "RANK and WORLD_SIZE")


def test_under_mpirun():
    assert shutil.which("mpirun"), "mpirun is missing; 'make setup' installs it"
    command = ["mpirun", "-n", "2", "--oversubscribe", ALL_REDUCE]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert_two_ranks(finish(start(command, **root)), "Open MPI")


def test_two_mpirun_jobs_at_once_do_not_meet_each_other(own_folder_of_mpirun):
    command = ["mpirun", "-n", "2", "--oversubscribe", ALL_REDUCE]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    jobs = []
    for name in "abc":
        (own_folder_of_mpirun / name).mkdir()
        jobs.append(start(command, **root, OMPI_MCA_orte_tmpdir_base=str(own_folder_of_mpirun / name)))
    for job in jobs:
        assert_two_ranks(finish(job), "Open MPI")


def test_over_tcp():
    address = f"tcp://127.0.0.1:{free_port()}"
    ranks = [start([ALL_REDUCE, address, str(rank), "2"]) for rank in (1, 0)]
    assert_two_ranks(finish(*ranks), address)


def test_in_a_file(tmp_path):
    address = f"file://{tmp_path}/meeting"
    ranks = [start([ALL_REDUCE, address, str(rank), "2"]) for rank in (1, 0)]
    assert_two_ranks(finish(*ranks), address)
    assert os.listdir(tmp_path) == []


def test_alone():
    assert finish(start([ALL_REDUCE])) == [
        "rank 0 of 1, found by: alone, no process group, timeout 30 min: the sum of 1..1 is 1"]


def test_as_a_slurm_step_on_one_host():
    step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2",
            "SLURM_TASKS_PER_NODE": "2", "SLURM_JOB_NODELIST": "n1", "SLURM_NODEID": "0"}
    ranks = [start([ALL_REDUCE], SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), **step) for rank in (1, 0)]
    assert_two_ranks(finish(*ranks), f"Slurm step {os.getpid()}.0")


def test_as_pbsdsh_tasks_on_one_host(tmp_path):
    nodes = tmp_path / "nodes"
    nodes.write_text("n1\nn1\n")
    job = {"PBS_JOBID": f"{os.getpid()}.server", "PBS_NODEFILE": str(nodes)}
    ranks = [start([ALL_REDUCE], PBS_TASKNUM=str(rank + 2), PBS_VNODENUM=str(rank), **job) for rank in (1, 0)]
    assert_two_ranks(finish(*ranks), f"pbsdsh of job {os.getpid()}.server")


def test_a_python_and_a_cpp_rank_form_one_group(tmp_path):
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
           "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    for python_rank in (0, 1):
        imported = tmp_path / f"imported{python_rank}"
        python = start([sys.executable, PYTHON_RANK, imported], RANK=str(python_rank), LOCAL_RANK=str(python_rank), **job)
        wait_for(imported.exists, LIMIT, "a Python that has imported torch")  # After 10 s the other warns.
        cpp = start([os.path.join(BIN, "comm_program"), "python"], RANK=str(1 - python_rank), LOCAL_RANK=str(1 - python_rank), **job)
        lines = finish(python, cpp)
        assert lines[python_rank] == f"rank {python_rank} of 2: the sum is 3"
        assert lines[1 - python_rank].endswith("the sum is 3")


def test_ranks_of_one_node_listen_on_loopback_alone():
    program = os.path.join(os.path.dirname(__file__), "programs", "listeners.py")
    job = start([LOCKSTEP, "run", "--nproc-per-node", "2", program], VIRTUAL_ENV=os.path.dirname(os.path.dirname(sys.executable)))
    lines = finish(job)
    assert len(lines) >= 2, "no rank listens, so nothing was shown"
    assert all(line.startswith("127.") for line in lines), lines


def test_a_caller_that_ignores_sigchld_is_no_obstacle():
    command = [LOCKSTEP, "run", "--nproc-per-node", "2", "/bin/sh", "-c", "exit 7"]
    done = subprocess.run(command, env=clean_environment(), timeout=LIMIT, capture_output=True,
                          preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize("way", ["return", "exit", "quick_exit", "global", "static", "leak", "pending", "pending_exit"])
def test_leaving_main_without_tearing_down_is_clean(way):
    program = os.path.join(BIN, "comm_program")
    assert finish(start([LOCKSTEP, "run", "--nproc-per-node", "2", program, way])) == []
    assert finish(start([program, way])) == []
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    assert finish(*[start([program, way], RANK=str(rank), **job) for rank in (0, 1)]) == []
