"""scripts/wandb_import.py with runs of `lockstep train`; nothing leaves the machine."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from training import environment, metrics, train, write_idx

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "wandb_import.py"
RUN = "runs/data-mlp"

sys.path.insert(0, str(SCRIPT.parents[1] / "tests/log"))
from check_wandb import records  # noqa: E402

spec = importlib.util.spec_from_file_location("wandb_import", SCRIPT)
wandb_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wandb_import)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with flags left to the program, the learning rate among them."""
    folder = tmp_path_factory.mktemp("wandb")
    write_idx(folder / "data")
    train(folder, "data", "--model", "mlp", "--batch-size", 32, "--epochs", 2, "--opt", "adamw", "--weight-decay", 0.05,
          "--log-interval", 5)
    return folder


def test_a_run_arrives_with_its_configuration(folder):
    env = environment({"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"})
    subprocess.run([sys.executable, SCRIPT, folder / RUN, "--project", "p", "momentum=0.5"], env=env, check=True)
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    sent = list(records(file.read_bytes()))
    (about,) = [record.run for record in sent if record.WhichOneof("record_type") == "run"]
    config = {entry.key: json.loads(entry.value_json) for entry in about.config.update}
    expected = {"learning_rate": 0.001, "epochs": 2, "batch_size": 32, "momentum": 0.5, "weight_decay": 0.05,
                "architecture": "mlp", "opt": "adamw", "sched": "cosine", "model_ema": False}
    assert expected.items() <= config.items(), config


def test_a_python_without_tomllib_reads_the_same(folder):
    import tomllib

    text = (folder / RUN / "config.toml").read_text()
    assert wandb_import.read_flat(text) == tomllib.loads(text)
    assert wandb_import.read_flat('# a\n[b]\nx = "a\\b"\ny = \'"\'\nz = [1, 2]\n') == {"x": "a\\b", "y": '"', "z": [1, 2]}


def test_without_a_checkpoint_the_rate_is_the_highest_of_the_log(folder, tmp_path):
    for name in ("config.toml", "metrics.jsonl"):
        (tmp_path / name).write_text((folder / RUN / name).read_text())
    highest = max(line["lr"] for line in metrics(folder / RUN))
    assert 0 < highest < 0.001
    assert wandb_import.read_config(tmp_path, [])["learning_rate"] == highest


def test_a_batch_that_was_not_used_is_left_out(tmp_path):
    (tmp_path / "config.toml").write_text("batch-size = 64\nglobal-batch-size = 256\nlr = 0.1\n")
    assert wandb_import.read_config(tmp_path, ["epochs=3"]) == {"global_batch_size": 256, "learning_rate": 0.1, "epochs": 3}
