"""`pip install ./python`, and what happens where the torch is another one or none."""

import os
import pathlib
import shutil
import site
import subprocess
import sys

import pytest
import torch
from conftest import LIMIT, REGISTER, ROOT

PACKAGE = pathlib.Path(os.environ["LOCKSTEP_PYTHON_PACKAGE"])
BUILD = PACKAGE.parents[1]
TORCH = pathlib.Path(torch.__file__).parents[1]
USE = REGISTER + """
import sys, torch, torch.distributed as dist
dist.init_process_group("lockstep", init_method="file://" + sys.argv[1], rank=0, world_size=1)
dist.all_reduce(torch.ones(3))
print(dist.get_backend(), sys.modules["lockstep"].__file__)
"""


def make_venv(folder, with_torch=True):
    """Its Python; it sees the torch of this one, if wanted, and nothing of PYTHONPATH."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if with_torch:
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "torch.pth").write_text("\n".join([str(TORCH), *site.getsitepackages()]))
    return folder / "bin" / "python"


def run(*command, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(list(map(str, command)), env={**clean, **environment}, capture_output=True, text=True,
                          timeout=LIMIT, cwd=ROOT)


def install(python, *arguments):
    return run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--disable-pip-version-check",
               *arguments, "./python")


def test_an_installed_package_is_found_by_its_entry_point(tmp_path):
    python = make_venv(tmp_path / "venv")
    done = install(python, "-C", f"build-dir={BUILD}")
    assert done.returncode == 0, done.stderr
    used = run(python, "-c", USE, tmp_path / "meeting")
    assert used.returncode == 0, used.stderr
    name, file = used.stdout.split()
    assert name == "lockstep" and pathlib.Path(file).is_relative_to(tmp_path / "venv")


def test_pip_says_that_torch_is_missing(tmp_path):
    done = install(make_venv(tmp_path / "venv", with_torch=False))
    assert done.returncode != 0
    assert "has no torch; install torch 2.11 to 2.15 there first" in done.stderr


@pytest.fixture
def of_another_torch(tmp_path):
    """The package as it would be had it been built for torch 2.0.1."""
    copy = tmp_path / "package"
    shutil.copytree(PACKAGE, copy)
    recorded = copy / "lockstep" / "_build.py"
    recorded.write_text(recorded.read_text().replace(torch.__version__, "2.0.1"))
    return copy


@pytest.mark.parametrize("program", ["import lockstep", USE], ids=["import", "entry_point"])
def test_another_torch_is_refused_by_name(of_another_torch, tmp_path, program):
    done = run(sys.executable, "-c", program, tmp_path / "meeting", PYTHONPATH=str(of_another_torch))
    assert done.returncode == 1
    assert f"was built for torch 2.0.1, this is torch {torch.__version__}; build it again" in done.stderr


def test_pip_refuses_a_tree_of_another_torch(of_another_torch, tmp_path):
    tree = tmp_path / "tree"
    (tree / "python").mkdir(parents=True)
    of_another_torch.rename(tree / "python" / "package")
    done = install(make_venv(tmp_path / "venv"), "-C", f"build-dir={tree}")
    assert done.returncode != 0
    assert "was built for torch 2.0.1" in done.stderr
