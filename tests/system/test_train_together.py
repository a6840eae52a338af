"""Ranks that are told different things, and checkpoints that do not fit, are refused on all ranks."""

import socket

import pytest

from training import start, train, write_idx

SHORT = ["data", "--model", "mlp", "--batch-size", 32, "--epochs", 1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    write_idx(folder / "data", train=320, test=64)
    return folder


def two_ranks(folder, flags, *others):
    """Their exit codes and errors; rank i has the flags others[i], too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    jobs = [start(folder, *flags, "--dist-url", url, "--world-size", 2, "--rank", rank, *other)
            for rank, other in enumerate(others)]
    errors = [job.communicate(timeout=60)[1] for job in jobs]
    return [job.returncode for job in jobs], errors


@pytest.mark.parametrize("flags, text", [
    (["--batch-size", 16], "samples in a step is '32' here and '64' on rank 0"),
    (["--grad-accum", 2], "--grad-accum is '2' here and '1' on rank 0"),
    (["--log-interval", 3], "--log-interval is '3' here and '50' on rank 0"),
    (["--checkpoint-interval", 3], "--checkpoint-interval is '3' here and '0' on rank 0"),
    (["--fast-dev-run", 3], "--fast-dev-run is '3' here and '0' on rank 0"),
    (["--lr", 3], "--lr is '3' here and '0' on rank 0"),
    (["--strict"], "--strict is '1' here and '0' on rank 0"),
    (["--nonfinite", "skip"], "--nonfinite is 'skip' here and 'abort' on rank 0"),
], ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else "")
def test_ranks_with_other_flags_are_refused(shared, flags, text):
    codes, errors = two_ranks(shared, [*SHORT, "--output", "ranks"], [], flags)
    assert codes == [2, 2]
    assert all(text in error and "HINT" in error for error in errors)
    assert not (shared / "ranks").exists()


def test_what_rank_0_finds_wrong_all_ranks_tell(shared):
    codes, errors = two_ranks(shared, [*SHORT, "--eval-only", "--resume", "nothing.pt"], [], [])
    assert codes == [2, 2]
    assert all("there is no 'nothing.pt'" in error for error in errors)


def test_weights_that_do_not_fit_are_not_evaluated(shared, tmp_path):
    train(shared, *SHORT, "--output", "fit")
    path = shared / "fit/data-mlp/checkpoints/last.pt"
    rows = "\n".join(",".join("1" * 784) + f",{i % 3}" for i in range(40))
    (tmp_path / "three.csv").write_text(rows + "\n")
    for flag in ("--resume", "--init-weights"):
        err = train(tmp_path, "three.csv", "--model", "mlp", "--batch-size", 4, "--eval-only", flag, path, code=2).stderr
        assert "the checkpoint has no" in err and "HINT" in err


def test_samples_that_were_learned_are_not_evaluated(tmp_path):
    rows = "\n".join(f"{i % 17},{i % 5},{int(i % 17 > 8)}" for i in range(200))
    (tmp_path / "points.csv").write_text(rows + "\n")
    train(tmp_path, "points.csv", "--batch-size", 20, "--epochs", 1, "--seed", 1)
    run = "runs/points-mlp"
    assert "of 20 samples" in train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--seed", 1).stdout
    err = train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--resume", run, code=2).stderr
    assert "--seed is '0' here and '1' there" in err and "HINT" in err
    err = train(tmp_path, "points.csv", "--batch-size", 20, "--eval-only", "--seed", 1, "--val-split", 0.5, code=2).stderr
    assert "--val-split is '0.5' here and '0.1' there" in err
