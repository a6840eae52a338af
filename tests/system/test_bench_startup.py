"""`lockstep bench startup` with one run of each side; what it measured here means nothing."""

import json
import subprocess

from conftest import BIN
from training import environment


def bench(*arguments):
    command = [str(BIN / "lockstep"), "bench", "startup", "--runs", "1", "--json", *map(str, arguments)]
    return subprocess.run(command, timeout=120, capture_output=True, text=True, env=environment())


def test_both_sides_are_printed():
    done = bench()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["row"] for row in rows] == ["/bin/true", "one step of the toy model"]
    assert all(len(row["ours_s"]) == len(row["torchrun_s"]) == 1 for row in rows)
