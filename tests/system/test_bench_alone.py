"""Benchmarks without their peers, and with settings that cannot work; `make check` runs those beside their peers."""

import json
import subprocess

import pytest
from conftest import BIN
from training import environment

QUICK = ("--rounds", 2, "--steps", 4, "--batch-size", 8)


def bench(*arguments, timeout=120):
    command = [str(BIN / "lockstep"), "bench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment())


def test_steps_without_python():
    done = bench("step", "--models", "mlp", "--ranks", 1, *QUICK, "--python", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "PyTorch took no part in mlp: " in done.stdout
    assert next(line for line in done.stdout.splitlines() if line.startswith("mlp")).split().count("-") == 5


def test_ranks_of_a_step_that_only_wait_for_each_other_exchange_nothing():
    done = bench("step", "--models", "mlp", "--ranks", 2, *QUICK, "--backend", "barrier", "--json", "--python", "")
    assert (done.returncode, done.stderr) == (0, "")
    row = json.loads(done.stdout)
    assert (row["bytes_per_step"], row["hidden"]) == (0, None)
    assert row["efficiency"]["ours"] > 0


def test_the_loader_without_python():
    done = bench("loader", "--rows", "memory", "--rounds", 1, "--python", "", "--shortest-turn", 0)
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if line.startswith("60,000")).split()
    assert row.count("-") == 4
    assert "PyTorch took no part in some rows: there is no Python that has torch" in done.stdout


def test_a_folder_without_classes_is_named_by_the_loader():
    done = bench("loader", "--rows", "decode", "--rounds", 1, "--data", "/proc/self/fdinfo")
    assert done.returncode == 1
    assert "fdinfo" in done.stderr


def test_help_of_the_loader_needs_no_torch():
    done = bench("loader", "--help")
    assert done.returncode == 0
    assert "--data" in done.stdout and "'best' is the fastest of PyTorch's" in done.stdout


def torchrun_that_fails(tmp_path, times):
    """A stand-in for Python: PyTorch's toy program aborts so many times, everything else just ends."""
    script = tmp_path / "python"
    script.write_text(f"""#!/bin/sh
case "$*" in *toy.py) ;; *) exit 0 ;; esac
echo x >> {tmp_path}/runs
[ $(wc -l < {tmp_path}/runs) -gt {times} ] || {{ echo terminate called without an active exception >&2; exit 134; }}
""")
    script.chmod(0o755)
    return script


def test_a_toy_program_of_pytorchs_that_aborts_is_repeated_and_counted(tmp_path):
    done = bench("startup", "--runs", 1, "--json", "--python", torchrun_that_fails(tmp_path, times=2))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["torchrun_repeated"] for line in done.stdout.splitlines()] == [0, 2]


def test_a_toy_program_of_pytorchs_that_always_aborts_is_an_error(tmp_path):
    done = bench("startup", "--runs", 1, "--json", "--python", torchrun_that_fails(tmp_path, times=100))
    assert done.returncode == 1
    assert "terminate called without an active exception" in done.stderr
    assert (tmp_path / "runs").read_text().count("x") == 6


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--models", "transformer"), "transformer not in {mlp,convnet,resnet18,resnet50}"),
        (("--variants", "fsdp"), "fsdp not in {ddp,zero,in_backward,data_parallel}"),
        (("--ranks", 0), "not in range 1 to 64"),
        (("--ranks", 65), "not in range 1 to 64"),
        (("--ranks", "two"), "--ranks"),
        (("--rounds", 0), "--rounds"),
        (("--steps", 0), "--steps"),
        (("--steps", -1), "--steps"),
        (("--batch-size", 0), "--batch-size"),
        (("--batch-size", "1e9"), "--batch-size"),
        (("--backend", "mpi"), "mpi not in {lockstep,shm,gloo,nccl,barrier}"),
        (("--backend", "nccl"), "--backend nccl with --device cpu"),
        (("--backend", "shm", "--device", "cuda"), "--backend shm with --device cuda"),
        (("--device", "tpu"), "tpu not in {cpu,cuda}"),
        (("--cuda-graph",), "--cuda-graph with --device cpu, expected cuda"),
        (("--device", "cuda", "--ranks", 2), "all contenders use the first GPU"),
        (("--shout",), "--shout"),
    ],
)
def test_settings_of_steps_that_cannot_work_are_refused_at_once(arguments, says):
    done = bench("step", *arguments, timeout=20)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--hosts", "1"], ["--hosts", "0"], ["--allreduce", "--bytes", "3"],
                                       ["--model", "vgg"], ["--what"]])
def test_settings_of_hosts_that_cannot_work_are_named(arguments):
    done = bench("hosts", *arguments, timeout=20)
    assert done.returncode == 2
    assert "lockstep bench hosts: error:" in done.stderr


def test_settings_of_training_that_cannot_work_are_named(tmp_path):
    for arguments, message in ((["--rows", "photos"], "there is no row 'photos'"), (["--rounds", 0], "not at least 1")):
        done = bench("train", *arguments)
        assert done.returncode == 2 and message in done.stderr
    done = bench("train", "--rows", "restart", "--data", tmp_path)
    assert done.returncode == 1 and "has no train-images-idx3-ubyte" in done.stderr


def test_help_names_the_rows_of_training():
    done = bench("train", "--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("fashion-mnist", "folder", "resnet18", "restart", "nodes", "nonfinite", "--rounds"))
