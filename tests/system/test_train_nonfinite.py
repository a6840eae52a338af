"""Infinite gradients, NaN in losses and weights: they end a run before they are saved, unless it is told otherwise."""

import json

import torch

from training import checkpoint, train

# The first step's gradients are finite, and its update is not.
DIVERGE = ["generated", "--model", "mlp", "--epochs", 1, "--lr", 1e38, "--weight-decay", 0, "--fast-dev-run", 0]


def all_finite(tensors):
    return all(torch.isfinite(tensor).all() for tensor in tensors.values())


def rows(bad):
    lines = [f"{i % 7},{(i * 3) % 11},{i % 2}" for i in range(400)]
    lines[bad] = "1e300,1,0"
    return "a,b,class\n" + "\n".join(lines) + "\n"


def test_a_run_that_diverges_ends_with_an_error(tmp_path):
    done = train(tmp_path, *DIVERGE, "--nproc", 2, "--checkpoint-interval", 1, code=1)
    assert "infinite or NaN" in done.stderr and "HINT: a smaller --lr" in done.stderr
    assert "finished" not in done.stdout
    saved = tmp_path / "runs/generated-mlp/checkpoints/last.pt"
    assert not saved.exists() or all_finite(checkpoint(saved.parents[1])["model"])


def test_a_rank_with_bad_data_is_named(tmp_path):
    (tmp_path / "table.csv").write_text(rows(200))
    flags = ["table.csv", "--epochs", 2, "--batch-size", 10, "--nproc", 2]
    done = train(tmp_path, *flags, code=1)
    assert "infinite or NaN" in done.stderr and "rank" in done.stderr and "step" in done.stderr
    done = train(tmp_path, *flags, "--nonfinite", "skip", "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "was left out: the gradient of" in done.stderr
    assert all_finite(checkpoint(tmp_path / "runs/table.csv-mlp" if (tmp_path / "runs/table.csv-mlp").exists()
                                 else next((tmp_path / "runs").iterdir()))["model"])


def test_who_ignores_it_goes_on(tmp_path):
    train(tmp_path, *DIVERGE, "--nonfinite", "ignore")
    assert not all_finite(checkpoint(tmp_path / "runs/generated-mlp")["model"])
