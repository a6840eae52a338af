"""Infinite gradients, NaN in losses and weights: they end a run before they are saved, unless it is told otherwise."""

import json
import re

import pytest
import torch
from torch.utils.data import DistributedSampler

from training import checkpoint, train, write_idx

# The first step's gradients are finite, and its update is not.
DIVERGE = ["generated", "--model", "mlp", "--epochs", 1, "--lr", 1e38, "--weight-decay", 0, "--fast-dev-run", 0]
IMAGES, SIDE, BATCH, RANKS = 240, 28, 10, 2


def all_finite(tensors):
    return all(torch.isfinite(tensor).all() for tensor in tensors.values())


def image_of(rank, step):
    """The first image that PyTorch's sampler gives this rank in this step of epoch 0."""
    sampler = DistributedSampler(range(IMAGES), RANKS, rank, shuffle=True, seed=0, drop_last=True)
    return list(sampler)[(step - 1) * BATCH]


def poisoned(folder, image):
    """Data and weights with which the outputs of one image overflow: it alone has a pixel with a huge weight."""
    data = write_idx(folder / "data", train=IMAGES, test=20, side=SIDE)
    for name in ("train", "t10k"):
        path = data / f"{name}-images-idx3-ubyte"
        content = bytearray(path.read_bytes())
        for at in range(16, len(content), SIDE * SIDE):
            content[at + SIDE * SIDE - 1] = 0
        if name == "train":
            content[16 + (image + 1) * SIDE * SIDE - 1] = 255
        path.write_bytes(content)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256),
                              torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():
        net[0].weight[:, -1] = 3e38
    torch.save({"model": net.state_dict()}, folder / "start.pt")
    return ["data", "--model", "mlp", "--init-weights", "start.pt", "--epochs", 2, "--batch-size", BATCH, "--nproc", RANKS,
            "--lr", 1e-3, "--weight-decay", 0]


def test_a_run_that_diverges_ends_with_an_error(tmp_path):
    done = train(tmp_path, *DIVERGE, "--nproc", 2, "--checkpoint-interval", 1, code=1)
    assert "infinite or NaN" in done.stderr and "HINT: a smaller --lr" in done.stderr
    assert "finished" not in done.stdout
    saved = tmp_path / "runs/generated-mlp/checkpoints/last.pt"
    assert not saved.exists() or all_finite(checkpoint(saved.parents[1])["model"])


@pytest.mark.parametrize("rank, step", [(1, 4), (0, 2)])
def test_one_rank_with_one_bad_image_is_named(tmp_path, rank, step):
    flags = poisoned(tmp_path, image_of(rank, step))
    done = train(tmp_path, *flags, code=1)
    named = set(re.findall(r"rank (\d+), step (\d+): the gradient of '([^']+)' is infinite or NaN", done.stderr))
    assert named == {(str(rank), str(step), "0.weight")}, done.stderr


def test_a_step_with_a_bad_image_is_left_out_alone(tmp_path):
    flags = poisoned(tmp_path, image_of(1, 4))
    done = train(tmp_path, *flags, "--epochs", 1, "--nonfinite", "skip", "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert re.findall(r"step (\d+) was left out: the gradient of '([^']+)'", done.stderr) == [("4", "0.weight")], done.stderr
    assert all_finite(checkpoint(tmp_path / "runs/data-mlp")["model"])


def test_who_ignores_it_goes_on(tmp_path):
    train(tmp_path, *DIVERGE, "--nonfinite", "ignore")
    assert not all_finite(checkpoint(tmp_path / "runs/generated-mlp")["model"])
