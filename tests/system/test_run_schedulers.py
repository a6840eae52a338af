"""`lockstep run` without a flag about nodes, in the environment that srun, pbsdsh or mpirun gives it."""

import os
import re
import shutil
import signal

import pytest

SHOW = 'echo "$GROUP_RANK $LOCAL_RANK $RANK $WORLD_SIZE $GROUP_WORLD_SIZE $TORCHELASTIC_RUN_ID"'


def slurm(node, **more):
    """What srun gives to the task of this node; the job id keeps the port apart from other jobs'."""
    job = {
        "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0, "SLURM_JOB_NODELIST": "localhost,127.0.0.1",
        "SLURM_STEP_NODELIST": "localhost,127.0.0.1", "SLURM_JOB_NUM_NODES": 2, "SLURM_NTASKS": 2,
        "SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_PROCID": node,
        "SLURM_NODEID": node, "SLURM_LOCALID": 0,
    }
    return {name: str(value) for name, value in {**job, **more}.items()}


def pbsdsh(folder, node, **more):
    nodes = folder / "nodes"
    nodes.write_text("localhost\n127.0.0.1\n")
    job = {"PBS_JOBID": f"{os.getpid()}.server", "PBS_NODEFILE": nodes, "PBS_NODENUM": node,
           "PBS_TASKNUM": node + 2}
    return {name: str(value) for name, value in {**job, **more}.items()}


def finish(*jobs, timeout=30):
    return [(*job.communicate(timeout=timeout), job.returncode) for job in jobs]


def assert_two_nodes(results, run_id, found_by):
    (out0, err0, code0), (out1, err1, code1) = results
    assert (code0, code1) == (0, 0), err0 + err1
    assert sorted(out0.splitlines()) == [f"0 {i} {i} 4 2 {run_id}" for i in range(2)]
    assert sorted(out1.splitlines()) == [f"1 {i} {i + 2} 4 2 {run_id}" for i in range(2)]
    assert re.fullmatch(rf"lockstep run: {re.escape(found_by)}: 2 nodes, master localhost:\d+\n", err0), err0
    assert err1 == ""  # One line a job.


def test_one_slurm_task_a_node(launcher):
    jobs = [launcher.start("--nproc-per-node", 2, "sh", "-c", SHOW, env=slurm(node)) for node in (0, 1)]
    step = f"{os.getpid()}.0"
    assert_two_nodes(finish(*jobs), f"slurm-{step}", f"Slurm step {step}")
    launcher.assert_clean()


def test_one_pbsdsh_task_a_node(launcher, tmp_path):
    jobs = [launcher.start("--nproc-per-node", 2, "sh", "-c", SHOW, env=pbsdsh(tmp_path, node)) for node in (0, 1)]
    job = f"{os.getpid()}.server"
    assert_two_nodes(finish(*jobs), f"pbs-{job}", f"pbsdsh of job {job}")
    launcher.assert_clean()


def test_the_steps_workers_fail_as_those_of_any_job(launcher):
    body = "[ $RANK = 1 ] && exit 9; sleep 100"
    jobs = [launcher.start("sh", "-c", body, env=slurm(node)) for node in (0, 1)]
    (_, err0, code0), (_, err1, code1) = finish(*jobs)
    assert (code0, code1) == (9, 9)
    assert "root cause: rank 1 (local rank 0) on node 1" in err0
    launcher.assert_clean()


def test_flags_win_over_the_scheduler(launcher):
    done = launcher.run("--standalone", "sh", "-c", SHOW, env=slurm(1))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0 0 0 1 1 ")


def test_a_launcher_a_task_is_an_error_that_says_what_to_write(launcher):
    several = {"SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": 0}
    for task in (0, 1):
        done = launcher.run("true", env=slurm(task, SLURM_LOCALID=task, **several), timeout=5)
        assert done.returncode == 2
        assert "starts 2 tasks on 1 node" in done.stderr
        assert "srun --ntasks-per-node=1 lockstep run" in done.stderr


def test_an_allocation_without_srun_does_not_wait_for_the_other_nodes(launcher, tmp_path):
    allocation = {name: value for name, value in slurm(0).items() if name.startswith(("SLURM_JOB", "SLURM_NTASKS"))}
    done = launcher.run("true", env=allocation, timeout=5)
    assert done.returncode == 2
    assert f"Slurm job {os.getpid()} has 2 nodes" in done.stderr and "srun" in done.stderr
    done = launcher.run("true", env=pbsdsh(tmp_path, 0, PBS_TASKNUM=1), timeout=5)
    assert done.returncode == 2
    assert f"PBS job {os.getpid()}.server has 2 nodes" in done.stderr and "pbsdsh" in done.stderr


def test_a_task_whose_others_have_ended_says_for_whom_it_waits(launcher):
    """As in the shell of `srun --nodes=2 --pty bash`: bash has ended on the second node."""
    done = launcher.run("--join-timeout", 2, "true", env=slurm(0), timeout=10)
    assert done.returncode == 1
    assert "still waiting for node 1 of 2 after 1 s, up to 2 s (--join-timeout)" in done.stderr
    assert f"Slurm step {os.getpid()}.0 told of these nodes" in done.stderr and "--standalone" in done.stderr


@pytest.mark.parametrize("node", [0, 1])
def test_a_pbsdsh_task_without_the_node_file_does_not_train_alone(launcher, tmp_path, node):
    job = pbsdsh(tmp_path, node, PBS_TASKNUM=("00000002", "A0000001")[node])
    del job["PBS_NODEFILE"]
    done = launcher.run("true", env=job, timeout=5)
    assert done.returncode == 2
    assert f"on node {node} of PBS job {os.getpid()}.server: PBS_NODEFILE is not set" in done.stderr
    assert "docs/guides/clusters/job.pbs" in done.stderr


def test_a_world_size_without_a_rank_does_not_hide_the_step(launcher):
    jobs = [launcher.start("--nproc-per-node", 2, "sh", "-c", SHOW, env=slurm(node, WORLD_SIZE=8))
            for node in (0, 1)]
    step = f"{os.getpid()}.0"
    assert_two_nodes(finish(*jobs), f"slurm-{step}", f"Slurm step {step}")


def test_a_launcher_inside_a_worker_is_a_job_of_its_own(launcher):
    inner = launcher.command("--nproc-per-node", 2, "sh", "-c", SHOW)
    jobs = [launcher.start(*inner, env=slurm(node)) for node in (0, 1)]
    for out, err, code in finish(*jobs):
        assert code == 0, err
        assert [line.split()[:5] for line in sorted(out.splitlines())] == [[*"00021"], [*"01121"]]


def test_mpirun_with_a_launcher_a_task_is_an_error(launcher):
    assert shutil.which("mpirun"), "mpirun is missing; 'make setup' installs it"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = launcher.run("true", prefix=("mpirun", "-n", 2, "--oversubscribe"), env=root)
    assert done.returncode != 0
    assert "Open MPI starts 2 tasks on this node" in done.stderr
    done = launcher.run("sh", "-c", SHOW, prefix=("mpirun", "-n", 1), env=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 0 0 1 1 ")


@pytest.mark.parametrize("node", [0, 1])
def test_a_signal_to_the_step_ends_it_on_both_nodes(launcher, node):
    jobs = [launcher.start("sh", "-c", "touch up$RANK; sleep 100", env=slurm(i)) for i in (0, 1)]
    launcher.up(2)
    jobs[node].send_signal(signal.SIGTERM)
    assert [code for _, _, code in finish(*jobs)] == [143, 143]
    launcher.assert_clean()
