"""`lockstep bench loader` with settings that take seconds; what it measured here means nothing."""

import json
import re
import subprocess

import pytest

from conftest import BIN


def bench(*arguments, timeout=200):
    command = [str(BIN / "lockstep"), "bench", "loader", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


SMALL = ("--photos", 20, "--files", 600, "--rounds", 1, "--shortest-turn", 0)


@pytest.fixture(scope="module")
def rows():
    done = bench(*SMALL, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def compared(rows):
    return {name: row for name, row in rows.items() if "sides" in row}


def test_all_rows_have_all_sides(rows, compared):
    assert set(rows) - set(compared) == {"decoder", "paced", "paced-exact"}
    assert set(compared) == {"memory", "exact", "fast", "cache", "large", "large-fast", "decode", "entropy", "index",
                             "first"}
    sides = {(side["side"], side["workers"]) for side in rows["memory"]["sides"]}
    assert sides == {("ours", 0), ("ours", "auto"), *(("pytorch", workers) for workers in (0, 1, 2, 4))}
    assert all(row["bench"] == "loader" and row["cores"] >= 1 for row in compared.values())


def test_every_contender_saw_all_samples(compared):
    expected = {"memory": 60000, "index": 600, "first": 256, "large": 8, "large-fast": 8}
    for row in compared.values():
        for side in row["sides"]:
            if not side["missing"]:
                assert side["samples"] == expected.get(row["row"], 20)


def test_the_decoder_is_named_and_has_simd(rows):
    assert re.fullmatch(r"libjpeg-turbo \d+\.\d+\.\d+", rows["decoder"]["library"])
    assert rows["decoder"]["simd_times_as_fast"] > 0


@pytest.mark.parametrize("row", ["paced", "paced-exact"])
def test_a_consumer_tells_how_long_it_waits(rows, row):
    paced = rows[row]
    assert paced["rate"] == 7000
    assert 0 <= paced["data_wait"] <= 1
    # It never takes more than its rate, and what it lacks it has waited for, but for late wake-ups.
    rate = paced["samples"] / paced["seconds"]
    assert rate <= 7000 * 1.01
    assert rate >= 7000 * (1 - paced["data_wait"]) * 0.5


def test_ratios_of_one_round_are_those_of_its_times(rows):
    sides = {(side["side"], side["workers"]): side["median_s"] for side in rows["memory"]["sides"]}
    best = min(seconds for (side, _), seconds in sides.items() if side == "pytorch")
    assert rows["memory"]["per_core"] == pytest.approx(sides["pytorch", 0] / sides["ours", 0])
    assert rows["memory"]["ratio"] == pytest.approx(best / sides["ours", "auto"])
    assert rows["memory"]["auto_over_one_core"] == pytest.approx(sides["ours", 0] / sides["ours", "auto"])


def test_short_turns_are_repeated():
    done = bench("--rows", "memory", "--rounds", 2, "--python", "", "--json", "--shortest-turn", 0.3)
    assert (done.returncode, done.stderr) == (0, "")
    row = json.loads(done.stdout)
    assert all(len(side["rounds_s"]) == (2 if side["side"] == "ours" else 0) for side in row["sides"])
    assert all(side["samples"] == 60000 for side in row["sides"] if side["side"] == "ours")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A data set as people have it: JPEGs of several sizes and kinds, in other numbers than --photos makes."""
    import numpy
    from PIL import Image

    folder = tmp_path_factory.mktemp("photos")
    noise = numpy.random.default_rng(0)
    for i in range(13):
        pixels = noise.integers(0, 256, (9 + i, 12 + 2 * i, 3), dtype="uint8")
        (folder / f"class{i % 3}").mkdir(exist_ok=True)
        image = Image.fromarray(pixels).resize((160 + 9 * i, 240 - 7 * i), Image.BICUBIC)
        image.save(folder / f"class{i % 3}" / f"{i}.jpg", quality=70 + i, progressive=i % 4 == 0)
    return folder


def test_a_folder_of_ones_own_is_read(photos):
    done = bench(*SMALL, "--rows", "photos,large,decode", "--data", photos, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert set(rows) == {"decoder", "exact", "fast", "cache", "paced", "paced-exact", "decode", "entropy"}
    for name in ("exact", "fast", "cache", "decode", "entropy"):
        for side in rows[name]["sides"]:
            assert side["missing"] or side["samples"] == 13, f"{name}: {side}"
        assert not rows[name]["sides"][0]["missing"]
    assert rows["paced-exact"]["samples"] % 13 == 0


def test_the_table_tells_small_ratios_to_a_hundredth(photos):
    done = bench("--rows", "decode", "--rounds", 1, "--shortest-turn", 0, "--data", photos)
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if line.startswith("decode JPEG")).split()
    ratios = [text for text in row if text.endswith("x")]
    assert len(ratios) == 2 and all(re.fullmatch(r"\d\.\d\dx|\d\d\.\dx", text) for text in ratios), row
