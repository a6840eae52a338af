"""Workers find what torchrun would have given them."""

import json
import os
import pathlib
import subprocess
import sys

PRINT = r"""
import json, os
os.write(1, json.dumps(dict(os.environ)).encode() + b"\n")  # In one piece.
"""

# Different by design: the address is a number, OMP_NUM_THREADS is the share of the cores.
OUR_OWN = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
WANTED = """LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE GROUP_WORLD_SIZE
ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
TORCH_NCCL_ASYNC_ERROR_HANDLING OMP_NUM_THREADS""".split()


def by_rank(text):
    workers = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {worker["RANK"]: worker for worker in workers}


def test_environment_is_that_of_torchrun(launcher):
    script = launcher.script(PRINT)
    flags = ["--nproc-per-node", "2", "--max-restarts", "3", "--role", "trainer"]
    ours = by_rank(launcher.run(*flags, script).stdout)
    torchrun = [sys.executable, "-m", "torch.distributed.run", *flags, str(script)]
    theirs = by_rank(
        subprocess.run(
            torchrun, env=launcher.environment(), capture_output=True, text=True, check=True
        ).stdout
    )
    assert sorted(ours) == sorted(theirs) == ["0", "1"]
    for rank, their in theirs.items():
        assert set(WANTED) <= set(ours[rank])
        assert set(their) - set(ours[rank]) == set()
        compared = set(their) - OUR_OWN - {"OMP_NUM_THREADS", "_", "TORCHINDUCTOR_CACHE_DIR"}
        assert {k: ours[rank][k] for k in compared} == {k: their[k] for k in compared}


def test_cores_are_shared_out_among_the_workers(launcher):
    script = launcher.script(PRINT)
    cores = len(os.sched_getaffinity(0))
    worker = by_rank(launcher.run("--nproc-per-node", 1, script).stdout)["0"]
    assert 1 <= int(worker["OMP_NUM_THREADS"]) <= cores
    worker = by_rank(launcher.run("--nproc-per-node", 2, script).stdout)["1"]
    assert int(worker["OMP_NUM_THREADS"]) == max(1, cores // 2)
    worker = by_rank(launcher.run(script, env={"OMP_NUM_THREADS": "7"}).stdout)["0"]
    assert worker["OMP_NUM_THREADS"] == "7"


def test_environment_and_arguments_are_passed_on_untouched(launcher):
    script = launcher.script("import os, sys; print(sys.argv[1:], repr(os.environ['ODD']))")
    odd = "a b\n$HOME 'q' ;"
    done = launcher.run(script, "--nproc-per-node", "9", "--", "-r", odd, env={"ODD": odd})
    assert done.stdout.strip() == f"{['--nproc-per-node', '9', '--', '-r', odd]} {odd!r}"


def test_flags_come_from_pet_variables(launcher):
    script = launcher.script(PRINT)
    workers = by_rank(launcher.run(script, env={"PET_NPROC_PER_NODE": "3"}).stdout)
    assert sorted(workers) == ["0", "1", "2"]
    workers = by_rank(
        launcher.run("--nproc_per_node=1", script, env={"PET_NPROC_PER_NODE": "3"}).stdout
    )
    assert sorted(workers) == ["0"]


def test_modules_and_programs_without_python(launcher):
    launcher.script("import sys; print('module', sys.argv[1:])", "some_module.py")
    done = launcher.run("-m", "some_module", "x")
    assert done.stdout.strip() == "module ['x']"
    program = launcher.script("#!/bin/sh\necho direct $RANK $1\n", "direct.py")
    program.chmod(0o755)
    assert launcher.run("--no-python", program, "x").stdout.strip() == "direct 0 x"


def test_active_python_runs_the_script(launcher):
    script = launcher.script("import sys; print(sys.prefix)")
    done = launcher.run(script)
    assert pathlib.Path(done.stdout.strip()) == pathlib.Path(sys.prefix)
