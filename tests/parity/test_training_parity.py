"""`lockstep train` and the same training in Python have the same losses, bit for bit."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from training import environment, losses, train, write_idx  # noqa: E402

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


def twin(folder, ranks, flags):
    out = folder / "losses"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, TWIN,
               folder / "data", out, *flags]
    done = subprocess.run([*map(str, command)], env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in out.read_text().split()]


@pytest.mark.parametrize("name, ranks", [("sgd", 1), *((name, 2) for name in CASES)])
def test_losses_are_pytorchs(tmp_path, name, ranks):
    here, there = CASES[name]
    passes = 2 if name == "accumulation" else 1
    write_idx(tmp_path / "data", train=16 * ranks * 40 * passes, test=20)
    train(tmp_path, "data", "--nproc", ranks, "--batch-size", 16, "--epochs", 5, "--log-interval", 1, *here,
          timeout=300)
    found = losses(tmp_path / "runs/data-convnet")
    expected = twin(tmp_path, ranks, there)
    assert len(found) == STEPS
    different = [step for step in range(STEPS) if found[step] != expected[step]]
    assert not different, f"from step {different[0] + 1} on: {found[different[0]]!r}, expected {expected[different[0]]!r}"
