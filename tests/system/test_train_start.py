"""What `lockstep train` is started with: its data, its ranks, a dry run, and what is refused."""

import contextlib
import pathlib
import random
import re
import socket
import subprocess

import pytest

from conftest import BIN, wait_for
from marks import also_long
from training import checkpoint, environment, losses, start, summary, train, write_idx

SHORT = ["data", "--batch-size", 32, "--epochs", 1, "--log-interval", 1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    write_idx(folder / "data", train=320, test=64)
    return folder


def test_dry_run_and_fast_dev_run_leave_nothing(shared):
    out = train(shared, *SHORT, "--output", "none", "--dry-run").stdout
    assert "1 epoch of 10 steps of 32 (32 x 1 rank)" in out and "finished" not in out
    out = train(shared, *SHORT, "--output", "none", "--fast-dev-run", 2).stdout
    assert "2/2" in out and "finished 1 epoch" in out
    assert not (shared / "none").exists()


def test_a_table_trains_an_mlp(tmp_path):
    rows = "\n".join(f"{i % 17},{i % 5},{int(i % 17 > 8)}" for i in range(400))
    (tmp_path / "points.csv").write_text("a,b,class\n" + rows + "\n")
    out = train(tmp_path, "points.csv", "--epochs", 10, "--batch-size", 20, "--nproc", 2).stdout
    assert "360 training and 40 validation rows in 2 classes" in out
    assert "is slow" not in out, "90 steps of two even ranks"
    out = train(tmp_path, "points.csv", "--label", "b", "--val-split", 0.5, "--dry-run").stdout
    assert "200 training and 200 validation rows in 5 classes" in out
    assert float(summary(tmp_path / "runs/points-mlp")[-1]["eval_top1"]) > 90


def test_a_cifar_folder_trains_a_resnet(tmp_path):
    noise = random.Random(1)
    (tmp_path / "cifar").mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = (bytes([i % 10]) + noise.randbytes(3072) for i in range(20))
        (tmp_path / "cifar" / name).write_bytes(b"".join(records))
    out = train(tmp_path, "cifar", "--batch-size", 20, "--epochs", 1).stdout
    assert "100 training and 20 validation images in 10 classes" in out
    saved = checkpoint(tmp_path / "runs/cifar-resnet18")
    assert saved["input_size"] == [3, 32, 32] and len(saved["mean"]) == 3


def test_a_folder_of_images_trains_a_resnet(tmp_path):
    for i in range(40):
        path = tmp_path / f"photos/class{i % 2}/{i}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P6 40 40 255\n" + bytes([200 * (i % 2) + i] * 4800))
    train(tmp_path, "photos", "--input-size", 32, "--batch-size", 8, "--epochs", 1, "--reprob", 0.5)
    saved = checkpoint(tmp_path / "runs/photos-resnet18")
    assert saved["class_names"] == ["class0", "class1"] and saved["input_size"] == [3, 32, 32]


@pytest.mark.parametrize("flags, text", [
    (["--epoch", 3], "HINT: --epochs"),
    (["--batch-size", 0], "--batch-size is 0"),
    (["--batch-size", 400], "HINT: --batch-size 320"),
    (["--global-batch-size", 33, "--nproc", 2], "33"),
    (["--global-batch-size", 32, "--batch-size", 8], "HINT: leave --batch-size out"),
    (["--seed", -1], "--seed is '-1'"),
    (["--warmup-epochs", 3], "HINT: --warmup-epochs 0.3"),
    (["--decay-milestones", "2,1"], "HINT: --decay-milestones 1,2"),
    (["--label", "class"], "HINT: leave --label out"),
    (["--input-size", 32], "HINT: leave --input-size out"),
    (["--epochs", "many"], "--epochs is 'many', expected a whole number"),
    (["--model", "resnet81"], "resnet"),
    (["--opt", "lamb"], "expected one of sgd"),
    (["--resume", "nothing.pt"], "there is no 'nothing.pt'"),
    (["--resume", "lats"], "HINT: --resume last"),
    (["--config", "missing.toml"], "missing.toml"),
    (["--nodes", 2, "--nr", 2], "--nr is 2"),
    (["--lr", "fast"], "--lr"),
    (["--gpu-ids", "0,1", "--nproc", 2], "GPU"),
    (["--dist-url", "tcp://127.0.0.1:1"], "--rank and --world-size"),
    (["--rank", 1], "--dist-url tcp://HOST:PORT"),
    (["--dist-url", "tcp://127.0.0.1:1", "--rank", 0, "--world-size", 2, "--nproc", 2], "leave --nproc out"),
    (["--dist-url", "tcp://127.0.0.1:1", "--rank", 0, "--world-size", 1, "--master-port", 2], "leave --master-port out"),
    (["--timeout", 0], "--timeout is 0"),
    (["--shutdown-timeout=-1"], "--shutdown-timeout must be 0 or more"),
    (["--momentum", 2], "HINT: leave --momentum out for 0.9"),
    (["--lr", "nan"], "HINT: leave --lr out for the default"),
    (["--sched", "multistep"], "HINT: --decay-milestones 1,2"),
    (["--backend", "gluu"], "gloo"),
    (["--eval-only", "--output", "nowhere"], "--init-weights PATH"),
], ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else "")
def test_wrong_invocations_say_what_to_do(shared, flags, text):
    done = train(shared, "data", *flags, code=2)
    assert text in done.stderr and "HINT: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--resume", "--init-weights"])
def test_a_file_that_is_no_checkpoint_is_a_wrong_flag(shared, flag):
    (shared / "notes.pt").write_text("no checkpoint")
    done = train(shared, *SHORT, "--output", "notes" + flag, flag, "notes.pt", code=2)
    assert f"{flag}: " in done.stderr and "HINT: give a checkpoint" in done.stderr


def test_what_is_no_data_says_what_is_expected(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat/0.ppm").write_bytes(b"P6 1 1 255\n123")
    (tmp_path / "empty.csv").touch()
    for data in ("none", "flat", "empty.csv"):
        done = train(tmp_path, data, code=2)
        assert f"'{data}'" in done.stderr and "expected a" in done.stderr and "HINT: " in done.stderr


@pytest.mark.parametrize("starter", [["torchrun"], ["lockstep", "run"], ["srun"]], ids="-".join)
@pytest.mark.parametrize("flags, hint", [
    (["--max-restarts", 2], "leave --max-restarts out"), *also_long(
        (["--nodes", 2, "--nr", 1], "leave --nodes, --nr out"), (["--rank", 0], "leave --rank out"),
        (["--gpu-ids", "0"], "CUDA_VISIBLE_DEVICES=0")),
], ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else "")
def test_flags_that_a_launched_rank_would_ignore_are_refused(shared, starter, flags, hint):
    """By what each starter tells its ranks; they meet nobody, since this is found first."""
    env = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    if starter == ["srun"]:
        env = {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0",
               "SLURM_NODEID": "0", "SLURM_NNODES": "1", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": "1"}
    if starter == ["lockstep", "run"]:
        done = subprocess.run([BIN / "lockstep", "run", BIN / "lockstep", "train", "data", *map(str, flags), "--dry-run"],
                              cwd=shared, env=environment(), capture_output=True, text=True, timeout=60)
    else:
        done = train(shared, "data", *flags, "--dry-run", env=env, code=2)
    assert done.returncode == 2
    assert hint in done.stderr and "HINT: " in done.stderr


def test_wrong_data_and_commands_name_the_nearest(shared):
    assert "fashion-mnist" in train(shared, "fashon-mnist", code=2).stderr
    done = subprocess.run([BIN / "lockstep", "help", "train"], capture_output=True, text=True, env=environment())
    assert done.returncode == 0 and "--global-batch-size" in done.stdout
    done = subprocess.run([BIN / "lockstep", "trian"], capture_output=True, text=True, env=environment())
    assert done.returncode == 2 and "train" in done.stderr


def test_a_read_only_root_costs_the_files_alone(shared):
    out = train(shared, *SHORT, "--output", "/proc/runs", code=1).stdout
    assert "training goes on without files" in out and "finished 1 epoch" in out


@pytest.mark.parametrize("flags", [["--init-weights", "no.pt"], ["--resume", "no.pt"], ["--output", "no.pt/runs"],
                                   ["--output", "/proc/runs"], ["--eval-only", "--init-weights", "no.pt"]], ids="".join)
def test_a_dry_run_fails_as_the_run_would(shared, flags):
    (shared / "no.pt").write_text("no checkpoint")
    before = sorted(shared.rglob("*"))
    codes = []
    for more in (["--dry-run"], []):
        job = start(shared, *SHORT, "--output", "dryfail", *flags, *more)
        job.communicate(timeout=60)
        codes.append(job.returncode)
        if more:
            assert sorted(shared.rglob("*")) == before
    assert codes[0] == codes[1] and codes[0] in (1, 2)


def test_a_dry_run_names_folder_and_optimizer(shared):
    out = train(shared, *SHORT, "--output", "planned", "--dry-run").stdout
    assert "sgd with learning rate 0.02, cosine" in out
    assert "the run would use the folder 'planned/data-convnet' and start with the first epoch" in out
    assert not (shared / "planned").exists()


@pytest.mark.parametrize("below", ["", "/runs"])
def test_an_output_that_is_a_file_is_refused_before_training(shared, below):
    (shared / "plain-file").write_text("mine")
    done = train(shared, *SHORT, "--output", f"plain-file{below}", code=2)
    assert "is no folder" in done.stderr and "HINT: --output" in done.stderr and "epoch 1 of 1" not in done.stdout
    assert (shared / "plain-file").read_text() == "mine"


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_was_allocated_is_printed(shared, ranks):
    out = train(shared, *SHORT, "--nproc", ranks, "--fast-dev-run", 1).stdout
    assert f"\n{socket.gethostname()}: {'rank 0' if ranks == 1 else 'ranks 0-1'} on the CPU\n" in out


def test_more_ranks_than_the_machine_can_bear_are_refused(shared):
    """A dry run starts no rank of them, either."""
    for flags in (["--dry-run"], []):
        done = train(shared, *SHORT, "--output", "many", "--nproc", 100000, *flags, code=2, timeout=30)
        assert "--nproc is 100000, expected at most" in done.stderr
        assert re.search(r"HINT: --nproc \d+, one for each usable core", done.stderr), done.stderr


@pytest.mark.parametrize("flags", [["--nproc", 4], ["--nproc", 2, "--nodes", 2, "--nr", 1, "--master-addr", "nowhere.invalid"],
                                   ["--dist-url", "tcp://127.0.0.1:1", "--rank", 3, "--world-size", 4]],
                         ids=lambda flags: flags[0])
def test_a_dry_run_starts_one_rank_and_speaks_for_all(shared, flags):
    out = train(shared, *SHORT, "--output", "none4", *flags, "--dry-run", timeout=60).stdout
    assert out.count("rank 0 of 1, ") == 1 and "rank 1" not in out
    assert "dry run: 4 ranks would be started" in out
    assert "2 steps of 128 (32 x 4 ranks)" in out


def test_two_processes_by_dist_url(shared):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    flags = [*SHORT, "--output", "url", "--dist-url", url, "--world-size", 2, "--local-rank", 0]
    jobs = [start(shared, *flags, "--rank", rank) for rank in (0, 1)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    assert len(losses(shared / "url/data-convnet")) == 5


def test_two_nodes_of_a_job(shared):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [*SHORT, "--output", "nodes", "--nodes", 2, "--gpus", 1, "--master-addr", "127.0.0.1", "--master-port", port]
    jobs = [start(shared, *flags, "--nr", rank) for rank in (0, 1)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    assert len(losses(shared / "nodes/data-convnet")) == 5


def environs_of(argument):
    """The environments of all processes that were given it."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if argument.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append((process / "environ").read_bytes().split(b"\0"))
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_keep_freed_memory(shared, ranks):
    """They are told when they start; mimalloc would not hear of it later."""
    job = start(shared, "data", "--batch-size", 8, "--epochs", 1000, "--output", shared / f"kept{ranks}", "--nproc", ranks)
    try:
        wait_for(lambda: (shared / f"kept{ranks}/data-convnet/checkpoints/last.pt").exists(), 60, "a checkpoint")
        environs = environs_of(str(shared / f"kept{ranks}"))
        found = [environ for environ in environs if ranks == 1 or any(entry.startswith(b"RANK=") for entry in environ)]
        assert len(found) == ranks
        assert all(b"MIMALLOC_PURGE_DELAY=10000" in environ for environ in found)
    finally:
        job.terminate()
        job.communicate(timeout=60)


def test_make_train_is_the_run_that_the_readme_shows(tmp_path):
    """The line of the network, the epochs and the ranks; without Fashion-MNIST there are fewer steps."""
    root = pathlib.Path(__file__).parents[2]
    [line] = re.findall(r"^\tbuild/bin/lockstep train (.*)$", (root / "Makefile").read_text(), re.M)
    out = train(tmp_path, *line.split(), "--dry-run").stdout
    [shown] = re.findall(r"^    (convnet with .*)$", (root / "README.md").read_text(), re.M)
    if "generated images" in out:
        out, shown = (re.sub(r"of \d+ steps", "of N steps", text) for text in (out, shown))
    assert shown in out.splitlines()
