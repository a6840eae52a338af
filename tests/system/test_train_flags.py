"""Each flag of `lockstep train` changes what it names."""

import json
import pathlib
import re

import pytest
import torch

from marks import also_long
from training import checkpoint, losses, metrics, summary, train, weights, write_idx

SHORT = ["data", "--batch-size", 32, "--epochs", 1, "--log-interval", 1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flags")
    write_idx(folder / "data", train=320, test=64)
    return folder


@pytest.fixture(scope="module")
def plain(shared):
    train(shared, *SHORT, "--output", "plain")
    return losses(shared / "plain/data-convnet")


@pytest.mark.parametrize("flags", [
    ["--seed", 1], ["--lr", 0.1], ["--opt", "adamw"], ["--sched", "linear"], ["--warmup-epochs", 0.5], ["--smoothing", 0.1],
    ["--clip-grad", 0.1], ["--mixup", 0.4], ["--crop-padding", 2], ["--amp", "bf16"], ["--amp", "O2"], ["--grad-accum", 2],
    ["--model", "mlp"],
    *also_long(
        ["--lr-base", 1], ["--momentum", 0.5], ["--weight-decay", 0.5], ["--opt", "nesterov"], ["--opt", "adam"],
        ["--sched", "constant"], ["--sched", "step", "--decay-epochs", 0.2], ["--min-lr", 0.01],
        ["--clip-grad", 0.001, "--clip-mode", "value"], ["--cutmix", 1], ["--reprob", 0.9], ["--hflip", 0.5],
        ["--amp", "fp16"], ["--amp", "O1"], ["--amp", "O3"], ["--lr-base", 1, "--lr-base-size", 512],
        ["--warmup-epochs", 0.5, "--warmup-lr", 0.01], ["--sched", "step", "--decay-epochs", 0.2, "--decay-rate", 0.5]),
], ids=lambda flags: "".join(map(str, flags)))
def test_losses_change(shared, plain, flags):
    name = "".join(map(str, flags)).strip("-")
    train(shared, *SHORT, "--output", name, *flags)
    run = next((shared / name).iterdir())
    found = losses(run)
    assert found and found != plain
    assert all(loss == loss for loss in map(float, found)), "not a number"


@pytest.mark.parametrize("flags", [
    ["--workers", 2], ["--validation-batch-size", 7], ["--find-unused-parameters"],
    *also_long(
        ["--amp", "O0"], ["--checkpoint-interval", 3, "--strict"], ["--data-dir", "data"],
        ["--cuda-graph", "--cudnn-benchmark", "--tf32", "off"], ["--backend", "gloo", "--nproc", 1, "--timeout", 60]),
], ids=lambda flags: "".join(map(str, flags)))
def test_losses_stay(shared, plain, flags):
    name = "stay" + "".join(map(str, flags))
    train(shared, *SHORT, "--output", name, *flags)
    assert losses(shared / name / "data-convnet") == plain


def test_channels_last_is_kept_in_the_checkpoint(shared):
    train(shared, *SHORT, "--output", "last", "--channels-last")
    weight = checkpoint(shared / "last/data-convnet")["model"]["4.weight"]
    assert weight.stride() != weight.contiguous().stride()


def test_sync_bn_normalizes_over_all_ranks(shared):
    found = {}
    for name, flags in {"alone": [], "apart": ["--nproc", 2], "together": ["--nproc", 2, "--sync-bn"]}.items():
        train(shared, "data", "--global-batch-size", 32, "--epochs", 1, "--log-interval", 1, "--output", "bn" + name, *flags)
        found[name] = [float(loss) for loss in losses(shared / f"bn{name}/data-convnet")]
    assert found["together"][1:3] == pytest.approx(found["alone"][1:3], rel=1e-4)
    assert found["apart"][1:3] != pytest.approx(found["alone"][1:3], rel=1e-4)


def test_sync_bn_needs_batch_normalization(shared):
    job = train(shared, *SHORT, "--model", "mlp", "--output", "bnmlp", "--sync-bn", code=2)
    assert "no batch normalization" in job.stderr


def test_averages_are_kept_and_validated(shared):
    flags = [*SHORT, "--output", "ema", "--model-ema", "--model-ema-decay", 0.9]
    train(shared, *flags)
    saved = checkpoint(shared / "ema/data-convnet")
    assert not saved["model_ema"]["4.weight"].equal(saved["model"]["4.weight"])
    validated = float(summary(shared / "ema/data-convnet")[-1]["eval_loss"])

    def loss_of(name):
        torch.save({"model": saved[name]}, shared / f"{name}.pt")
        return json.loads(train(shared, *SHORT, "--eval-only", "--init-weights", f"{name}.pt", "--json").stdout)["eval_loss"]

    assert loss_of("model_ema") == pytest.approx(validated, abs=1e-6)
    assert loss_of("model") != pytest.approx(validated, abs=1e-4)


def test_one_global_batch_has_the_same_samples_for_any_number_of_ranks(shared):
    """And the same learning rates, also of one that grows with the batch."""
    found, rates = {}, {}
    for ranks in (1, 2):
        flags = ["--model", "mlp", "--global-batch-size", 32, "--output", f"global{ranks}", "--nproc", ranks,
                 "--lr-base", 0.2, "--warmup-epochs", 0.5]
        train(shared, "data", "--epochs", 1, "--log-interval", 1, *flags)
        found[ranks] = losses(shared / f"global{ranks}/data-mlp")
        rates[ranks] = [line["lr"] for line in metrics(shared / f"global{ranks}/data-mlp") if "loss" in line]
    assert len(found[1]) == len(found[2]) == 10
    assert all(abs(a - b) < 1e-4 for a, b in zip(found[1], found[2]))
    assert rates[1] == rates[2]
    assert max(rates[1]) == pytest.approx(0.2 * 32 / 256) and len(set(rates[1])) > 5


def test_early_stop(shared):
    out = train(shared, *SHORT, "--output", "early", "--epochs", 30, "--lr", 1e-12, "--early-stop", 2).stdout
    assert "stopped early after" in out
    assert len(summary(shared / "early/data-convnet")) < 30


def test_eval_only_has_the_runs_accuracy(shared, plain):
    row = summary(shared / "plain/data-convnet")[-1]
    out = train(shared, *SHORT, "--output", "plain", "--eval-only", "--json").stdout
    found = json.loads(out)
    assert found["eval_top1"] == float(row["eval_top1"]) and found["samples"] == 64
    assert abs(found["eval_loss"] - float(row["eval_loss"])) < 1e-6


def test_eval_only_of_few_batches_takes_the_checkpoint_that_is_named(shared, plain):
    file = shared / "plain/data-convnet/checkpoints/last.pt"
    out = train(shared, *SHORT, "--eval-only", "--fast-dev-run", 1, "--resume", file).stdout
    assert f"weights from '{file}'" in out


def test_init_weights_starts_with_them(shared, plain):
    file = shared / "plain/data-convnet/checkpoints/last.pt"
    train(shared, *SHORT, "--output", "init", "--init-weights", file)
    assert losses(shared / "init/data-convnet")[0] < plain[0] / 2


@pytest.mark.parametrize("flags", [[], ["--eval-only"], ["--fast-dev-run", 1], ["--nproc", 2, "--max-restarts", 2]],
                         ids=lambda flags: "".join(map(str, flags)))
def test_a_wrong_path_of_initial_weights_names_the_nearest(shared, plain, flags):
    wrong = "plain/data-convnet/checkpoints/lats.pt"
    done = train(shared, *SHORT, "--output", "wrong", "--init-weights", wrong, *flags, code=2)
    assert "HINT: --init-weights plain/data-convnet/checkpoints/last.pt" in done.stderr
    assert "restarting" not in done.stderr and not (shared / "wrong").exists()


def test_profile_writes_a_trace(shared):
    train(shared, *SHORT, "--output", "profile", "--profile", "--epochs", 2)
    trace = json.loads((shared / "profile/data-convnet/trace.json").read_text())
    assert any("conv" in event.get("name", "") for event in trace["traceEvents"])


def test_json_is_all_of_stdout(shared):
    done = train(shared, *SHORT, "--output", "json", "--json")
    told = json.loads(done.stdout)
    assert told["state"] == "finished" and told["best_epoch"] == 1, "counted as the text does"
    assert "json/data-convnet/checkpoints/last.pt" in told["files"]
    assert "epoch 1 of 1" in done.stderr


def test_log_interval_is_steps(shared):
    train(shared, *SHORT, "--output", "interval", "--log-interval", 4)
    assert [line["step"] for line in metrics(shared / "interval/data-convnet") if "loss" in line] == [4, 8, 10]


def test_the_backend_and_the_timeout_are_those_that_are_printed(shared):
    """Two ranks' sums have the same bits, whoever adds."""
    flags = [*SHORT, "--nproc", 2]
    out = train(shared, *flags, "--output", "gloo", "--backend", "gloo", "--timeout", 61).stdout
    assert re.search(r"^rank 0 of 2, .*, backend gloo.*, timeout 61 s$", out, re.M), out
    out = train(shared, *flags, "--output", "default").stdout
    assert re.search(r"^rank 0 of 2, .*, backend lockstep.*, timeout ", out, re.M), out
    assert losses(shared / "gloo/data-convnet") == losses(shared / "default/data-convnet")


def test_every_flag_of_help_is_tried(shared):
    """The flags that some test passes are all there are, with all of their names."""
    help_text = train(shared, "--help").stdout
    names = re.findall(r"^  ((?:--?[\w-]+(?:\{\w+\})?,?)+)", help_text, re.M)
    flags = {flag for words in names for flag in re.findall(r"--[\w-]+", words)}
    tried = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_train_*.py"))
    tried += (pathlib.Path(__file__).parents[1] / "train/program/flags_test.cpp").read_text()
    untried = {flag for flag in flags if f'"{flag}"' not in tried}
    assert len(flags) > 90 and not untried, sorted(untried)


def test_weights_do_not_depend_on_workers(tmp_path):
    write_idx(tmp_path / "data", train=128, test=20)
    for workers in (0, 3):
        train(tmp_path, "data", "--epochs", 1, "--batch-size", 16, "--workers", workers, "--output", f"w{workers}", "--mixup", 0.5)
    assert weights(tmp_path / "w0/data-convnet") == weights(tmp_path / "w3/data-convnet")
