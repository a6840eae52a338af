"""The example programs, as a reader of the documentation would start them."""

import re
import socket
import subprocess

import pytest

from conftest import BIN


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # There may be fewer GPUs than ranks.


def weights(text):
    return re.findall(r"rank (\d) of (\d): the weights' sum is (\S+)", text)


@pytest.mark.parametrize("name", ["toy_basic", "toy_model_parallel"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_started_by_the_program_end_equal(launcher, name, ranks):
    done = subprocess.run([BIN / "examples" / name, str(ranks)], env=launcher.environment(),
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found = weights(done.stdout)
    assert sorted(rank for rank, _, _ in found) == [str(rank) for rank in range(ranks)]
    assert len({total for _, _, total in found}) == 1
    launcher.assert_clean(0)


@pytest.mark.parametrize("name", ["toy_basic", "toy_model_parallel"])
def test_ranks_of_a_launcher_end_equal(launcher, name):
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / name)
    assert (done.returncode, done.stderr) == (0, "")
    found = weights(done.stdout)
    assert len(found) == 2 and found[0][2] == found[1][2]


def test_loss_falls(launcher):
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / "toy_basic")
    losses = [float(value) for value in re.findall(r"rank 0 .*loss (\S+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < losses[0]


def test_training_goes_on_from_a_checkpoint(launcher, tmp_path):
    folder = tmp_path / "checkpoints"
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / "toy_checkpoint", folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.findall(r"rank (\d) of 2: went on to (\S+), resumed to (\S+)\n", done.stdout)
    assert sorted(rank for rank, _, _ in found) == ["0", "1"]
    assert len({total for _, *totals in found for total in totals}) == 1
    assert [path.name for path in folder.iterdir()] == ["last.pt"]
    assert (folder.stat().st_mode & 0o777, (folder / "last.pt").stat().st_mode & 0o777) == (0o700, 0o600)
    shown = subprocess.run([BIN / "lockstep", "inspect", folder / "last.pt"], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "  0.weight: float32 [10, 10]\n" in shown.stdout and "  param_groups: 1 entry\n" in shown.stdout


def test_inspect_says_what_is_wrong(tmp_path):
    path = tmp_path / "a.pt"
    for content, text in ((b"hello", "is no checkpoint"), (b"\x80\x02cos\nsystem\n.", "convert it: python -c")):
        path.write_bytes(content)
        shown = subprocess.run([BIN / "lockstep", "inspect", path], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 1 and text in shown.stderr and str(path) in shown.stderr


def test_plain_libtorch_needs_one_call_of_lockstep(launcher, tmp_path):
    command = [BIN / "examples" / "plain_libtorch", tmp_path / "meeting"]
    ranks = [subprocess.Popen([*command, str(rank), "2"], env=launcher.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in (0, 1)]
    for rank, process in enumerate(ranks):
        out, _ = process.communicate(timeout=60)
        assert out == f"rank {rank} of 2 through lockstep: the sum is 3, the largest rank 1\n"
        assert process.returncode == 0
    launcher.assert_clean(0)


def test_plain_libtorch_says_what_is_wrong(launcher, tmp_path):
    for backend, rank, text in (("glou", 0, "backend 'glou' is unknown"), ("gloo", 2, "rank")):
        done = subprocess.run([BIN / "examples" / "plain_libtorch", tmp_path / "meeting", str(rank), "1", backend],
                              env=launcher.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and text in done.stderr


def test_loading_goes_on_with_other_ranks_where_it_was_left(launcher, tmp_path):
    def images(ranks, *batches):
        program = [BIN / "examples" / "load_data", tmp_path / "position", *batches]
        done = launcher.run("--nproc-per-node", ranks, *program)
        assert done.returncode == 0, done.stderr
        return re.findall(rf"rank \d of {ranks}: (\d+) batches, .*; (\d+) of 600 images of epoch (\d)", done.stdout)

    assert images(2, 3) == [("3", "180", "0")] * 2
    assert images(3, 2) == [("2", "300", "0")] * 3
    assert images(1) == [("5", "600", "0")]
    assert images(1, 4) == [("4", "240", "1")]
    (tmp_path / "position").write_text("0 one 240")
    done = launcher.run("--nproc-per-node", 1, BIN / "examples" / "load_data", tmp_path / "position")
    assert done.returncode != 0 and "is damaged, expected seed, epoch" in done.stdout + done.stderr


def test_loading_says_what_is_wrong(launcher, tmp_path):
    program = BIN / "examples" / "load_data"
    for arguments, text in (([tmp_path / "position", "many"], "BATCHES is 'many'"), ([tmp_path / "position", "0"], "BATCHES is '0'"),
                            ([tmp_path / "none/position", "2"], "none/position' cannot be written")):
        done = subprocess.run([program, *arguments], env=launcher.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and text in done.stderr


def test_loading_a_folder_keeps_its_images_in_memory(launcher, tmp_path):
    for i in range(60):
        (tmp_path / f"images/class{i % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"images/class{i % 3}/{i}.ppm").write_bytes(b"P6 8 8 255\n" + bytes([i] * 192))
    (tmp_path / "images/class0/broken.jpg").write_bytes(b"")
    done = launcher.run("--nproc-per-node", 2, BIN / "examples" / "load_data", tmp_path / "position", 1000,
                        tmp_path / "images")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"rank \d of 2: 2 batches, .*; 61 of 61 images of epoch 0", done.stdout)) == 2
    assert "61 images in 3 classes" in done.stdout
    assert re.search(r"image cache '/dev/shm/.*': .* in use", done.stdout)


def example(launcher, name, *arguments):
    return subprocess.Popen([str(BIN / "examples" / name), *map(str, arguments)], env=launcher.environment(), text=True,
                            cwd=launcher.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_driver_starts_the_ranks_of_one_and_of_two_machines(launcher):
    job = example(launcher, "mnist_amp", "--gpus", 2, "--epochs", 2)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    losses = [float(loss) for loss in re.findall(r"on 2 ranks: loss (\S+)", out)]
    assert len(losses) == 2 and losses[1] < losses[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{free.getsockname()[1]}"
    jobs = [example(launcher, "mnist_amp", "--nodes", 2, "--gpus", 1, "--nr", nr, "--master", master) for nr in (0, 1)]
    ends = [job.communicate(timeout=60) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], ends
    assert "epoch 1 of 1 on 2 ranks" in ends[0][0] and ends[1][0] == ""


def test_table_with_an_unused_branch(launcher):
    rows = "\n".join(f"{i % 17},{i % 5},{i % 11},{int(i % 17 > 8)}" for i in range(400))
    (launcher.folder / "pima.csv").write_text(rows + "\n")
    job = example(launcher, "pima", "pima.csv", 2)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    accuracy, count = re.search(r"accuracy (\S+) % of (\d+) rows on 2 ranks", out).groups()
    assert float(accuracy) > 90 and count == "80"


def test_own_network_has_all_of_the_trainer(launcher):
    flags = ["generated", "--model", "mynet", "--nproc", 2, "--epochs", 1, "--fast-dev-run", 3]
    job = example(launcher, "own_network", *flags)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    assert "mynet with 101770 parameters" in out and "finished 1 epoch" in out
    job = example(launcher, "own_network", "generated", "--model", "mynett")
    _, err = job.communicate(timeout=60)
    assert job.returncode == 2 and "mynet" in err


def test_data_parallel_vs_ddp_explains_its_arguments(launcher):
    def run(*arguments):
        done = subprocess.run([BIN / "examples" / "data_parallel_vs_ddp", *arguments], env=launcher.environment(),
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run("--help")
    assert code == 0 and out.startswith("usage: data_parallel_vs_ddp [REPLICAS [STEPS]]") and err == ""
    for wrong in "abc", "0", "17", "2x", "":
        expected = f"data_parallel_vs_ddp: REPLICAS is '{wrong}', expected a whole number from 1 to 16; see --help\n"
        assert run(wrong) == (2, "", expected)
    code, out, err = run("2", "-1")
    assert (code, out) == (2, "") and "STEPS is '-1'" in err
    code, out, err = run("1", "1", "1")
    assert (code, out) == (2, "") and "expected at most 2" in err


def test_data_parallel_and_ddp_are_compared(launcher):
    done = subprocess.run([BIN / "examples" / "data_parallel_vs_ddp", "2", "1"], env=launcher.environment(),
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(re.findall(r"^ *(\S.*?) {2,}(\d+\.\d|-) +\d+\.\d$", done.stdout, re.M))
    parts = ["replicate", "scatter", "forward", "gather", "backward", "optimizer"]
    assert [*rows] == [*parts, "all of it", "images/s", "peak MiB, device or rank 0", "peak MiB, device or rank 1"]
    assert abs(sum(float(rows[part]) for part in parts) - float(rows["all of it"])) < 1
    assert float(rows["replicate"]) > 0 and float(rows["peak MiB, device or rank 0"]) > 100
    assert rows["peak MiB, device or rank 1"] == "-", "replicas on the CPU share one memory"
