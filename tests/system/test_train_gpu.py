"""Training on a GPU: recorded steps have the bits of eager ones, and the driver's figures are told."""

import ctypes
import json
import math
import os
import signal
import socket

import pytest

from conftest import wait_for
from training import losses, metrics, ranks, start, train, wait_for_steps, weights, write_idx

GPU = {"CUDA_VISIBLE_DEVICES": "0"}
RUN = "runs/data-convnet"
FLAGS = ["data", "--nproc", 1, "--batch-size", 16, "--epochs", 2, "--log-interval", 1,
         "--use-deterministic-algorithms", "--tf32", "off"]


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "data")
    return tmp_path


def test_what_was_allocated_is_printed(folder):
    out = train(folder, *FLAGS, "--dry-run", env=GPU).stdout
    assert f"\n{socket.gethostname()}: rank 0 on GPU 0\n" in out


def trained(folder, *flags):
    output = folder / "-".join(["runs", *map(str, flags)])
    out = train(folder, *FLAGS, "--output", output, *flags, env=GPU).stdout
    return output / "data-convnet", out


@pytest.mark.parametrize("more", [[], ["--amp", "bf16"], ["--amp", "fp16"], ["--amp", "O2"],
                                  ["--amp", "bf16", "--channels-last"],
                                  ["--model-ema", "--clip-grad", 1, "--opt", "adamw"], ["--mixup", 0.2]],
                         ids=lambda more: "-".join(map(str, more)) or "float32")
def test_recorded_steps_have_the_bits_of_eager_ones(folder, more):
    recorded, out = trained(folder, *more)
    assert "steps are recorded as a CUDA graph now" in out
    eager, out = trained(folder, *more, "--no-cuda-graph")
    assert "steps run eagerly" in out
    assert losses(recorded) == losses(eager)
    assert weights(recorded) == weights(eager)


def nccl_version():
    """Of the NCCL that LD_PRELOAD names, which ranks get, too; 0 without."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version))
    except AttributeError:
        return 0
    return version.value


@pytest.mark.skipif(nccl_version() < 23000, reason="ranks share a GPU with NCCL 2.30 or later: LD_PRELOAD one")
@pytest.mark.parametrize("more", [[], ["--amp", "fp16", "--sync-bn"]], ids=["float32", "fp16"])
def test_recorded_steps_of_two_ranks_have_the_bits_of_eager_ones(folder, more):
    flags = [*FLAGS, *more]
    flags[flags.index("--nproc") + 1] = 2
    flags += ["--timeout", 20, "--shutdown-timeout", 5]  # An error comes before the end of the test's own time.
    env = {**GPU, "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    recorded = train(folder, *flags, "--output", folder / "recorded", env=env, timeout=150).stdout
    assert "steps are recorded as a CUDA graph now" in recorded
    train(folder, *flags, "--output", folder / "eager", "--no-cuda-graph", env=env, timeout=150)
    assert losses(folder / "recorded/data-convnet") == losses(folder / "eager/data-convnet")
    assert weights(folder / "recorded/data-convnet") == weights(folder / "eager/data-convnet")


SHARED = ["data", "--model", "mlp", "--lr", 0.05, "--log-interval", 1, "--tf32", "off"]
THROUGH_MEMORY = ["--nproc", 2, "--batch-size", 16, "--backend", "cpu:shm,cuda:shm"]


def test_two_ranks_that_share_the_gpu_through_memory_train_as_one(folder):
    """With the whole batch in one rank the losses are the same to rounding."""
    train(folder, *SHARED, "--nproc", 1, "--batch-size", 32, "--epochs", 2, "--output", folder / "one", env=GPU)
    out = train(folder, *SHARED, *THROUGH_MEMORY, "--epochs", 2, "--output", folder / "two", env=GPU).stdout
    assert "ranks 0-1 on GPU 0" in out
    one, two = (losses(folder / name / "data-mlp") for name in ("one", "two"))
    assert len(two) == 40 and two[-1] < 0.9 * two[0]
    assert two == pytest.approx(one, rel=1e-4, abs=1e-5)


def test_a_killed_rank_ends_the_other_that_shares_its_gpu(folder):
    job = start(folder, *SHARED, *THROUGH_MEMORY, "--epochs", 1000, env=GPU)
    wait_for_steps(folder / "runs/data-mlp", 15, job)
    pids = ranks(folder)
    os.kill(pids[1], signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pids[0]}"), seconds=1, what="the end of rank 0")
    _, err = job.communicate(timeout=20)
    assert job.returncode == 128 + signal.SIGKILL
    assert "root cause: rank 1" in err and "SIGKILL" in err


def test_with_autotune_recorded_steps_are_eager_ones_to_tolerance(folder):
    """cuDNN may choose other algorithms in each run, and TF32 rounds in them."""
    flags = ["data", "--nproc", 1, "--batch-size", 16, "--epochs", 1, "--log-interval", 1]
    found = {}
    for name, more in (("recorded", []), ("eager", ["--no-cuda-graph"])):
        out = train(folder, *flags, "--output", folder / name, *more, env=GPU).stdout
        assert "cuDNN's fastest algorithms" in out
        assert ("steps are recorded as a CUDA graph now" in out) == (name == "recorded")
        found[name] = losses(folder / name / "data-convnet")
    assert len(found["recorded"]) == len(found["eager"]) == 40
    assert found["recorded"] == pytest.approx(found["eager"], rel=0.02, abs=0.02)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(folder):
    whole, _ = trained(folder)
    job = start(folder, *FLAGS, "--checkpoint-interval", 7, env=GPU)
    path = folder / RUN / "metrics.jsonl"
    while not path.exists() or path.read_text().count("\n") < 15:
        assert job.poll() is None, job.communicate()
    job.kill()
    job.communicate()
    train(folder, *FLAGS, "--checkpoint-interval", 7, env=GPU)
    assert weights(folder / RUN) == weights(whole)


def test_nan_is_named_with_the_step_that_had_it(folder):
    """Although the losses of recorded steps are looked at once in 50 steps."""
    absurd = ["--opt", "sgd", "--lr", 1e7]
    ignored, out = trained(folder, *absurd, "--nonfinite", "ignore")
    assert "recorded as a CUDA graph" in out
    finite = [math.isfinite(float(loss)) for loss in losses(ignored)]
    first = finite.index(False) + 1
    assert 1 < first < len(finite)
    at = FLAGS.index("--log-interval") + 1
    error = train(folder, *FLAGS[:at], 50, *FLAGS[at + 1:], *absurd, env=GPU, code=1).stderr
    assert f"step {first}: the loss of rank 0 is infinite or NaN" in error


def test_the_summary_and_the_metrics_tell_how_busy_the_gpu_is(folder):
    out = train(folder, *FLAGS, "--json", env=GPU).stdout
    assert 0 <= json.loads(out)["gpu_utilization"] <= 100
    lines = [json.loads(line) for line in (folder / RUN / "metrics.jsonl").read_text().splitlines()]
    assert all(line["gpu_memory_bytes"] > 0 for line in lines if "loss" in line)
    [events] = (folder / RUN).glob("events.out.tfevents.*")
    assert all(tag in events.read_bytes() for tag in (b"GPU/utilization", b"GPU/memory_bytes", b"GPU/watts"))


@pytest.mark.parametrize("flags, words", [
    ([], "float32, contiguous, TF32 in convolutions, cuDNN's fastest algorithms, steps to be recorded as a CUDA graph"),
    (["--tf32", "off", "--no-cudnn-benchmark", "--no-cuda-graph"],
     "float32, contiguous, no TF32, cuDNN's default algorithms, steps run eagerly (--no-cuda-graph)"),
    (["--tf32", "on", "--deterministic", "--grad-accum", 2],
     "TF32, deterministic algorithms, steps run eagerly (--grad-accum)"),
    (["--amp", "bf16", "--channels-last", "--nonfinite", "skip"],
     "amp bf16, channels_last, TF32 in convolutions, cuDNN's fastest algorithms, steps run eagerly (--nonfinite skip)"),
], ids=["default", "plain", "deterministic", "skip"])
def test_the_screen_says_how_the_gpu_computes(folder, flags, words):
    done = train(folder, "data", "--nproc", 1, "--fast-dev-run", 4, *flags, env=GPU)
    assert words in done.stdout
    assert "cannot be recorded" not in done.stdout + done.stderr


def test_chosen_gpus_reach_the_ranks(folder):
    """The environment shows none, so the flag decides."""
    out = train(folder, "data", "--nproc", 1, "--fast-dev-run", 4, "--gpu-ids", 0).stdout
    assert "steps to be recorded as a CUDA graph" in out


def test_the_backend_nccl_trains(folder):
    train(folder, *FLAGS, "--backend", "nccl", env=GPU)
    assert len(metrics(folder / RUN)) == 82
