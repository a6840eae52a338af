"""Images: bad files, caches, fast decoding, a part for the final evaluation, and augmentation."""

import json
import os
import signal

import pytest

from training import losses, metrics, ranks, start, train, wait_for_steps, write_idx

SMALL = ["photos", "--model", "mlp", "--input-size", 16, "--epochs", 1, "--log-interval", 1]


def write_ppm(path, value, side=20):
    """Dark or bright, so that the class can be learned."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"P6 %d %d 255\n" % (side, side) + bytes([value] * (3 * side * side)))


def write_photos(folder, **parts):
    """So many images of two classes in each part."""
    for part, count in parts.items():
        for i in range(count):
            write_ppm(folder / part / f"class{i % 2}" / f"{i:03}.ppm", 200 * (i % 2) + i % 50)
    return folder


def spoil(folder, count):
    """Some files become empty, text, or cut off; returns their paths."""
    paths = sorted(folder.glob("*/*.ppm"))[3::29][:count]
    assert len(paths) == count
    for i, path in enumerate(paths):
        path.write_bytes([b"", b"<html>", path.read_bytes()[:500]][i % 3])
    return paths


def test_one_percent_of_bad_files_are_replaced_and_listed(tmp_path):
    bad = spoil(write_photos(tmp_path / "photos", train=200, val=20) / "train", 2)
    found = {}
    for ranks in (1, 2):
        flags = [*SMALL, "--epochs", 2, "--global-batch-size", 20, "--output", f"runs{ranks}", "--nproc", ranks]
        out = train(tmp_path, *flags).stdout
        assert "2 files cannot be read; other samples take their places" in out
        for path in bad:
            assert out.count(f"photos/train/{path.parent.name}/{path.name}'") == 1, "each is listed once, whoever met it"
        found[ranks] = losses(tmp_path / f"runs{ranks}/photos-mlp")
    assert len(found[1]) == 20
    assert found[2] == pytest.approx(found[1], abs=1e-4), "the same samples take their places on any number of ranks"


def test_scores_are_of_the_files_that_can_be_read(tmp_path):
    spoil(write_photos(tmp_path / "photos", train=20, val=11) / "val", 1)
    for ranks in (1, 2):
        flags = [*SMALL, "--global-batch-size", 4, "--output", f"runs{ranks}", "--nproc", ranks]
        out = train(tmp_path, *flags).stdout
        assert "scores of the validation part are without 1 file" in out
        assert json.loads(train(tmp_path, *flags, "--eval-only", "--json").stdout)["samples"] == 10


def test_more_bad_files_than_allowed_end_the_run(tmp_path):
    bad = spoil(write_photos(tmp_path / "photos", train=200, val=20) / "train", 5)
    done = train(tmp_path, *SMALL, "--batch-size", 10, "--nproc", 2, code=1)
    assert "files cannot be read" in done.stderr and "expected at most 2 (max_bad)" in done.stderr and "raise max_bad (--max-bad)" in done.stderr
    assert any(path.name in done.stderr for path in bad)
    done = train(tmp_path, *SMALL, "--batch-size", 10, "--nproc", 2, "--max-bad", 0, "--resume", "no", code=1)
    assert "set max_bad (--max-bad)" in done.stderr
    done = train(tmp_path, *SMALL, "--batch-size", 10, "--nproc", 2, "--max-bad", 5, "--json")
    told = json.loads(done.stdout)
    assert told["bad_files"] == 5 and len(told["bad_file_list"]) == 5
    for path in bad:
        named = [text for text in told["bad_file_list"] if f"{path.parent.name}/{path.name}'" in text]
        assert len(named) == 1, told["bad_file_list"]


def test_the_limit_of_bad_files_is_that_of_all_ranks_together(tmp_path):
    from torch.utils.data import DistributedSampler

    write_photos(tmp_path / "photos", train=200, val=20)
    paths = sorted((tmp_path / "photos/train").glob("*/*.ppm"))
    met = [list(DistributedSampler(range(200), 2, rank))[step] for rank in (0, 1) for step in (3, 70)]
    assert not {index + 1 for index in met} & set(met), "what replaces a file is good, so each rank meets two"
    for index in met:
        paths[index].write_bytes(b"")
    flags = [*SMALL, "--batch-size", 10, "--nproc", 2]
    done = train(tmp_path, *flags, "--max-bad", 2, code=1)
    assert "4 files cannot be read" in done.stderr and "expected at most 2 (max_bad)" in done.stderr
    assert all(f"{paths[index].parent.name}/{paths[index].name}'" in done.stderr for index in met)
    assert len(losses(tmp_path / "runs/photos-mlp")) == 10, "all steps were made: neither rank had met too many"
    train(tmp_path, *flags, "--max-bad", 4, "--resume", "no")


def test_what_is_no_image_is_told_at_the_start(tmp_path):
    photos = write_photos(tmp_path / "photos", train=20, val=4)
    (photos / "train/class0/notes.txt").write_text("no image")
    (photos / "train/class1/empty").mkdir()
    out = train(tmp_path, *SMALL, "--batch-size", 10, "--dry-run").stdout
    assert "photos/train': 20 images in 2 classes, 10 to 10 in a class" in out
    assert "skipped 1: the name does not end like an image's (class0/notes.txt)" in out
    assert "skipped 1: there is no image in the folder (class1/empty)" in out


def test_of_three_parts_the_test_is_the_final_evaluation(tmp_path):
    write_photos(tmp_path / "photos", train=40, valid=11, test=17)
    done = train(tmp_path, *SMALL, "--epochs", 3, "--batch-size", 4, "--nproc", 2, "--json")
    told = json.loads(done.stdout)
    assert told["test_samples"] == 17
    lines = metrics(tmp_path / "runs/photos-mlp")
    tests = [line for line in lines if "test_loss" in line]
    assert tests == [lines[-1]] and tests[0]["test_top1"] == told["test_top1"] and tests[0]["step"] == told["steps"]
    done = train(tmp_path, *SMALL, "--epochs", 3, "--batch-size", 4, "--eval-only", "--resume", "last", "--json")
    again = json.loads(done.stdout)
    assert again["samples"] == 11 and again["test_samples"] == 17 and again["test_top1"] == told["test_top1"]
    assert again["test_loss"] == pytest.approx(told["test_loss"], rel=1e-5)


def test_tiny_imagenet_is_taken_as_it_is(tmp_path):
    tiny = tmp_path / "tiny"
    lines = []
    for i in range(24):
        name = f"n0{i % 3}"
        write_ppm(tiny / "train" / name / "images" / f"{name}_{i}.ppm", 80 * (i % 3))
        (tiny / "train" / name / f"{name}_boxes.txt").write_text("boxes")
        write_ppm(tiny / "val/images" / f"val_{i}.ppm", 80 * (i % 3))
        write_ppm(tiny / "test/images" / f"test_{i}.ppm", 0)
        lines.append(f"val_{i}.ppm\t{name}\t0\t0\t19\t19\n")
    (tiny / "val/val_annotations.txt").write_text("".join(lines))
    flags = ["tiny", *SMALL[1:], "--epochs", 20, "--batch-size", 12, "--opt", "adam", "--log-interval", 50]
    done = train(tmp_path, *flags, "--json")
    assert "24 training and 24 validation images in 3 classes" in done.stderr and "/test' is not scored" in done.stderr
    assert json.loads(done.stdout)["best_top1"] > 60, "the annotations have the right classes"
    (tiny / "val/val_annotations.txt").write_text("".join(lines) + "val_99.ppm\tn00\t0\t0\n")
    done = train(tmp_path, *flags, "--resume", "no", code=1)
    assert "val_annotations.txt': line 25: 4 fields, expected 6" in done.stderr


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory):
    """Waves over noise, much larger than the network's input, so that fast decoding reduces them."""
    import numpy
    from PIL import Image

    folder = tmp_path_factory.mktemp("jpegs")
    noise = numpy.random.default_rng(0)
    x, y = numpy.meshgrid(numpy.arange(320), numpy.arange(240))
    for part, count in (("train", 24), ("val", 6)):
        for i in range(count):
            waves = 127 + 90 * numpy.sin((x if i % 2 else y) / (9 + i % 5))
            pixels = waves[..., None] + noise.normal(0, 25, (240, 320, 3))
            path = folder / "photos" / part / f"class{i % 2}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(path, quality=90)
    return folder


@pytest.fixture(scope="module")
def plain(jpegs):
    return run_of(jpegs, "plain")


def run_of(folder, name, *flags):
    """The losses, and what was printed."""
    out = train(folder, *SMALL, "--epochs", 2, "--batch-size", 6, "--output", name, *flags).stdout
    return losses(folder / name / "photos-mlp"), out


def test_a_cache_changes_no_number_and_is_told(jpegs, plain):
    (jpegs / "cache").mkdir()
    assert "image cache" not in plain[1]
    for name, place, flags in [("ram", "/dev/shm/", ["--cache", "ram"]),
                               ("disk", "cache/", ["--cache", "disk", "--cache-dir", "cache"]),
                               ("disk2", "cache/", ["--cache", "disk", "--cache-dir", "cache", "--nproc", 1])]:
        found, out = run_of(jpegs, name, *flags)
        assert found == plain[0] and f"image cache '{place}" in out


def test_a_run_with_a_cache_goes_on_without_it(tmp_path):
    write_photos(tmp_path / "photos", train=100, val=10)
    flags = [*SMALL, "--epochs", 40, "--global-batch-size", 10]
    train(tmp_path, *flags, "--output", "whole")
    job = start(tmp_path, *flags, "--cache", "ram")
    wait_for_steps(tmp_path / "runs/photos-mlp", 12, job)
    job.send_signal(signal.SIGINT)
    err = job.communicate(timeout=60)[1]
    assert job.returncode == 130, err
    assert "resumed from" in train(tmp_path, *flags).stdout
    assert losses(tmp_path / "runs/photos-mlp") == losses(tmp_path / "whole/photos-mlp")


def test_the_launcher_gives_back_the_memory_that_killed_ranks_had_as_cache(tmp_path):
    write_photos(tmp_path / "photos", train=100, val=10)
    job = start(tmp_path, *SMALL, "--epochs", 100000, "--global-batch-size", 10, "--cache", "ram", "--nproc", 2)
    wait_for_steps(tmp_path / "runs/photos-mlp", 12, job)
    pids = ranks(tmp_path).values()
    caches = {line.split()[-1] for pid in pids for line in open(f"/proc/{pid}/maps") if "/lockstep-ram-images-" in line}
    assert caches and all(map(os.path.exists, caches))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    err = job.communicate(timeout=60)[1]
    assert job.returncode == 128 + signal.SIGKILL, err
    assert not any(map(os.path.exists, caches))


@pytest.mark.parametrize("flags", [["--decode", "fast"], ["--cache", "ram", "--cache-shorter-side", 32], ["--hflip", 0]],
                         ids=lambda flags: "".join(map(str, flags)))
def test_flags_of_images_change_the_losses(jpegs, plain, flags):
    found, _ = run_of(jpegs, "".join(map(str, flags)).strip("-"), *flags)
    assert len(found) == len(plain[0]) and found != plain[0]


def test_fast_decoding_is_near_to_exact(jpegs, plain):
    found, _ = run_of(jpegs, "fast", "--decode", "fast", "--epochs", 1)
    assert found[0] == pytest.approx(plain[0][0], rel=0.02), "the first step has the same weights"


@pytest.mark.parametrize("flags", [["--reprob", 0.9], ["--hflip", 0.5, "--crop-padding", 3]], ids=lambda flags: flags[0])
def test_augmentation_in_memory_does_not_depend_on_ranks(tmp_path, flags):
    write_idx(tmp_path / "data", train=128, test=20)
    found = {}
    for name, more in {"off": [], "1": flags, "2": [*flags, "--nproc", 2]}.items():
        train(tmp_path, "data", "--model", "mlp", "--global-batch-size", 32, "--epochs", 2, "--log-interval", 1, "--output", name, *more)
        found[name] = losses(tmp_path / name / "data-mlp")
    assert found["1"] != pytest.approx(found["off"], rel=1e-3)
    assert found["2"] == pytest.approx(found["1"], abs=1e-4)


@pytest.mark.parametrize("flags, text", [
    (["--cache", "ram"], "--cache is for a folder of image files"),
    (["--decode", "fast"], "HINT: leave --decode out"),
    (["--cache", "disk"], "HINT: --cache-dir"),
    (["--max-bad", -2], "--max-bad is -2"),
    (["--max-bad", 3], "--max-bad is for a folder of image files"),
    (["--hflip", 2], "HINT: leave --hflip out"),
], ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else "")
def test_flags_that_do_not_fit_say_what_to_do(tmp_path, flags, text):
    write_idx(tmp_path / "data", train=64, test=8)
    done = train(tmp_path, "data", *flags, code=2)
    assert text in done.stderr and "HINT: " in done.stderr
