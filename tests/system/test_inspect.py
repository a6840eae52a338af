"""`lockstep inspect` of several files, of some that cannot be read, and of flags that make no sense."""

import pathlib
import subprocess

import pytest

from conftest import BIN

SEEDS = pathlib.Path(__file__).resolve().parents[1] / "checkpoint/seeds"
ONE, OTHER = str(SEEDS / "pt/kinds.pt"), str(SEEDS / "safetensors/two.safetensors")


def inspect(*arguments, **options):
    return subprocess.run([str(BIN / "lockstep"), "inspect", *arguments], capture_output=True, text=True, **options)


def test_a_file_that_cannot_be_read_does_not_hide_the_others():
    done = inspect(ONE, "nope", OTHER)
    assert done.returncode == 1
    assert f"{ONE}: torch.save file" in done.stdout and f"{OTHER}: safetensors file" in done.stdout
    assert done.stderr == "lockstep inspect: opening the checkpoint 'nope': No such file or directory\n"
    assert inspect(ONE, OTHER).returncode == 0


@pytest.mark.parametrize("items", ["-1", "x"])
def test_senseless_numbers_of_items_are_refused(items):
    done = inspect("--items", items, ONE)
    assert done.returncode == 2 and "--items" in done.stderr and done.stdout == ""


def test_no_items_at_all():
    assert "flags: [... 2 in all]" in inspect("--items", "0", ONE).stdout
