"""The backend mpi as a user meets it: started by mpirun or not, left well or not."""

import os
import random
import re
import struct
import subprocess

import pytest

from conftest import BIN

PLAIN = BIN / "examples" / "plain_libtorch"
PROGRAM = BIN / "comm_program"


def environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
    kept = {k: v for k, v in os.environ.items()
            if k not in names and not k.startswith(("SLURM_", "OMPI_COMM_", "PMI_", "PMIX_", "PBS_"))}
    # Gloo would use GPUs, of which there may be fewer than ranks.
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(*command):
    return subprocess.run([str(part) for part in command], env=environment(), capture_output=True, text=True,
                          timeout=120)


def mpirun(ranks, *command):
    return run("mpirun", "-n", ranks, "--oversubscribe", *command)


def test_a_plain_libtorch_program(tmp_path):
    ranks = "$OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE"
    done = mpirun(3, "sh", "-c", f"{PLAIN} {tmp_path}/meeting {ranks} mpi")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank} of 3 through mpi: the sum is 6, the largest rank 2" for rank in range(3)]


def write_images(folder, name, count):
    noise = random.Random(count)
    images = struct.pack(">4i", 0x803, count, 28, 28) + noise.randbytes(count * 28 * 28)
    labels = struct.pack(">2i", 0x801, count) + bytes(i % 10 for i in range(count))
    (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)


@pytest.mark.parametrize("starter", [[BIN / "lockstep", "train"], [BIN / "lockstep-train"]])
def test_training_gives_gloos_numbers(starter, tmp_path):
    write_images(tmp_path, "train", 640)
    write_images(tmp_path, "t10k", 64)
    losses = {}
    for backend in ("mpi", "gloo"):
        done = mpirun(2, *starter, tmp_path, "--epochs", 1, "--backend", backend, "--output", tmp_path / "runs")
        assert done.returncode == 0, done.stderr
        assert f"backend {backend}" in done.stdout
        losses[backend] = re.findall(r"loss (\S+), acc(?:uracy)? (\S+)", done.stdout)
    assert losses["mpi"] == losses["gloo"] and len(losses["mpi"]) == 1


@pytest.mark.parametrize("command", [
    pytest.param([PROGRAM, "return", "mpi"], id="by nobody"),
    pytest.param([BIN / "lockstep", "run", "--nproc-per-node", 2, PROGRAM, "return", "mpi"], id="by another launcher"),
    pytest.param(["mpirun", "-n", 1, BIN / "lockstep", "run", "--nproc-per-node", 2, PROGRAM, "return", "mpi"],
                 id="by a launcher inside mpirun"),
])
def test_started_without_mpirun(command):
    done = run(*command)
    if command[0] == PROGRAM:  # A world of one is MPI's as well.
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode != 0
        assert "MPI_COMM_WORLD has 1 rank, expected at least 2; start it with mpirun -n 2" in done.stderr


@pytest.mark.parametrize("way", ["return", "exit", "global", "static", "leak", "pending", "pending_exit"])
def test_every_way_of_leaving_main_with_success_ends_mpi(way):
    done = mpirun(2, PROGRAM, way, "mpi")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rank_that_fails_ends_the_job_at_once():
    done = mpirun(2, PROGRAM, "fail", "mpi")  # The other waits 30 minutes.
    assert done.returncode == 3


def test_a_late_rank_is_an_error_with_operation_and_rank():
    done = mpirun(2, PROGRAM, "late", "mpi")
    assert done.returncode != 0
    assert "all_reduce #2 on rank 1 of 2: timed out after 200 ms" in done.stderr
