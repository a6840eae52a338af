"""`lockstep train` and the same training in Python have the same losses, bit for bit.

On the first images of Debian's Fashion-MNIST where it is installed, else on made-up ones; the names of the tests say which.
"""

import gzip
import pathlib
import shlex
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from training import BIN, environment, losses, train, write_idx  # noqa: E402

TWIN = pathlib.Path(__file__).with_name("training_twin.py")
STEPS = 200
# Flags here and there.
CASES = {
    "sgd": ([], []),
    "nesterov_warmup": (["--opt", "nesterov", "--warmup-epochs", 1], ["--opt", "nesterov", "--warmup", 1]),
    "adamw_clip": (["--opt", "adamw", "--clip-grad", 0.5], ["--opt", "adamw", "--clip", 0.5]),
    "smoothing": (["--smoothing", 0.1], ["--smoothing", 0.1]),
    "accumulation": (["--grad-accum", 2], ["--accum", 2]),
}
NAMES = {1: ["sgd"], 2: list(CASES)}  # By the number of ranks.
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")  # As in lockstep/data/datasets/fashion_mnist.h.
FILES = {"train-images-idx3-ubyte": 16, "train-labels-idx1-ubyte": 8, "t10k-images-idx3-ubyte": 16, "t10k-labels-idx1-ubyte": 8}
SOURCE = "fashion_mnist" if all((FASHION_MNIST / f"{name}.gz").exists() for name in FILES) else "made_up_images"


def write_fashion_mnist(folder, train, test):
    """So many of its first images, as idx files."""
    folder.mkdir(parents=True)
    for name, head in FILES.items():
        count = train if name.startswith("train") else test
        with gzip.open(FASHION_MNIST / f"{name}.gz") as packed:
            magic, _, *sides = struct.unpack(f">{head // 4}i", packed.read(head))
            size = 1
            for side in sides:
                size *= side
            content = packed.read(count * size)
        (folder / name).write_bytes(struct.pack(f">{head // 4}i", magic, count, *sides) + content)
    return folder


class Twins:
    """What PyTorch does. Its start takes longer than a case, so one job trains all cases of so many ranks."""

    def __init__(self, folder):
        self.folder = folder
        self.errors = {}  # By the number of ranks; empty where there was none.

    def data(self, name, ranks):
        images = 16 * ranks * 40 * (2 if name == "accumulation" else 1)
        folder = self.folder / str(images) / "data"
        write = write_fashion_mnist if SOURCE == "fashion_mnist" else write_idx
        return folder if folder.exists() else write(folder, train=images, test=20)

    def losses(self, name, ranks):
        if ranks not in self.errors:
            self.errors[ranks] = self.run(ranks)
        path = self.folder / f"{name}.{ranks}"
        assert path.exists(), f"PyTorch came to no result: {self.errors[ranks]}"
        return [float(line) for line in path.read_text().split()]

    def run(self, ranks):
        lines = [[self.data(name, ranks), self.folder / f"{name}.{ranks}", *CASES[name][1]] for name in NAMES[ranks]]
        trainings = self.folder / f"trainings.{ranks}"
        trainings.write_text("".join(shlex.join(map(str, line)) + "\n" for line in lines))
        # Not torchrun, which imports torch for itself.
        command = [str(BIN / "lockstep"), "run", "--nproc-per-node", str(ranks), sys.executable, str(TWIN), str(trainings)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
        return f"exit code {done.returncode}\n{done.stderr}" if done.returncode else ""


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    return Twins(tmp_path_factory.mktemp("twins"))


@pytest.mark.parametrize("name, ranks", [pytest.param(name, ranks, id=f"{name}-{ranks}-{SOURCE}")
                                         for ranks in NAMES for name in NAMES[ranks]])
def test_losses_are_pytorchs(tmp_path, twins, name, ranks):
    train(tmp_path, twins.data(name, ranks), "--nproc", ranks, "--batch-size", 16, "--epochs", 5, "--log-interval", 1,
          *CASES[name][0], timeout=300)
    found = losses(tmp_path / "runs/data-convnet")
    expected = twins.losses(name, ranks)
    assert len(found) == len(expected) == STEPS
    different = [step for step in range(STEPS) if found[step] != expected[step]]
    assert not different, f"from step {different[0] + 1} on: {found[different[0]]!r}, expected {expected[different[0]]!r}"
