"""`lockstep bench checkpoint` with settings that take seconds; what it measured here means nothing."""

import json
import subprocess

from conftest import BIN


def bench(*arguments):
    command = [str(BIN / "lockstep"), "bench", "checkpoint", "--megabytes", "2", "--rounds", "1", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_all_rows_are_there_and_nothing_is_left(tmp_path):
    done = bench("--json", "--folder", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == ["memcpy", "lockstep", "torch_save", "torch_save_fsync"]
    for row in rows.values():
        assert row["bytes"] == 2_000_000 and 0 < row["pause_s"] <= row["median_s"] and len(row["rounds_s"]) == 1
    assert rows["memcpy"]["pause_over_memcpy"] == 1
    assert list(tmp_path.iterdir()) == []


def test_without_python_ours_runs_alone(tmp_path):
    done = bench("--python", "", "--folder", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "lockstep" in done.stdout and "torch.save," not in done.stdout
