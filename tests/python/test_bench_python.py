"""`lockstep bench python` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess

from job_launcher import BIN


def bench(*arguments):
    command = [str(BIN / "lockstep"), "bench", "python", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_each_row_has_all_contenders():
    done = bench("--sizes", "64K", "--models", "mlp", "--rounds", 2, "--steps", 2, "--batch-size", 8, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["what"] for row in rows] == ["all_reduce of 64 KiB", "step of mlp, batch of 8"]
    for row in rows:
        assert list(row["ms"]) == ["arena", "lockstep", "gloo"]
        assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in row["ms"].values())


def test_a_wrong_size_is_refused_with_an_example():
    done = bench("--sizes", "25X")
    assert done.returncode == 2
    assert "'25X' is no list of multiples of 4, as 1K,25M" in done.stderr
