"""What pip calls to build the package (PEP 517): runs CMake one level up and packs a wheel.

It needs no package: torch, CMake, Ninja and the compiler are those of the machine. The build tree is kept
in build/wheel-* of the checkout, so that a second install only compiles what changed. To take the package
from a tree that is built otherwise: pip install -C build-dir=build ./python
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"

# Without importing torch, which takes seconds.
FIND_TORCH = """
import importlib.util, json, pathlib
spec = importlib.util.find_spec("torch")
version = {}
if spec and spec.origin:
    exec(pathlib.Path(spec.origin).with_name("version.py").read_text(), version)
print(json.dumps(version.get("__version__")))
"""


class BuildError(Exception):
    """Says what is missing and what to do; pip shows it below the traceback."""


def outside_environment():
    """The environment without the isolation that pip builds in: that hides the interpreter's torch."""
    environment = dict(os.environ)
    environment.pop("PYTHONNOUSERSITE", None)
    paths = environment.pop("PYTHONPATH", "").split(os.pathsep)
    if kept := [path for path in paths if path and "pip-build-env-" not in path]:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    return environment


def torch_version(environment):
    done = subprocess.run([sys.executable, "-c", FIND_TORCH], env=environment, capture_output=True, text=True)
    version = json.loads(done.stdout) if done.returncode == 0 else None
    if not version:
        raise BuildError(
            f"'{sys.executable}' has no torch; install torch 2.11 to 2.15 there first. If it is there and the "
            "installer hides it (uv does), add --no-build-isolation"
        )
    return version


def require_tools():
    if not (ROOT / "CMakeLists.txt").exists():
        raise BuildError(f"the C++ sources are not at '{ROOT}'; install from a checkout of lockstep: pip install ./python")
    compiler = os.environ.get("CXX", "c++")
    missing = [tool for tool in ("cmake", "ninja", compiler) if not shutil.which(tool)]
    if missing:
        raise BuildError(f"not found: {', '.join(missing)}; on Debian or Ubuntu: apt-get install g++ cmake ninja-build")


def jobs():
    """Compilers at once: one per core, and 1.5 GB of memory for each, since c10d's headers take that."""
    with open("/proc/meminfo") as lines:
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return max(1, min(len(os.sched_getaffinity(0)), kilobytes // 1_500_000))


def build_in_tree(environment, torch):
    """The build tree, after CMake has built the package in it."""
    require_tools()
    tree = ROOT / "build" / f"wheel-{TAG}-torch{torch}"
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "LOCKSTEP_PYTHON": sys.executable,
        "LOCKSTEP_PYTHON_ONLY": "ON",
        "LIBTORCH_ROOT": "",
        "LOCKSTEP_CUDA": "OFF",  # The backend is for CPU tensors.
        "LOCKSTEP_TESTS": "OFF",
        "LOCKSTEP_EXAMPLES": "OFF",
    }
    flags = [f"-D{name}={value}" for name, value in options.items()]
    for command in (["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", *flags],
                    ["cmake", "--build", tree, "-j", str(jobs()), "--target", "lockstep_python"]):
        if subprocess.run(command, env=environment).returncode:
            raise BuildError("CMake could not build lockstep; the reason is above (pip install -v shows it)")
    return tree


def package_in(tree, torch):
    """The folder to pack and its version; refuses one that was built for another Python or torch."""
    package = tree / "python" / "package"
    module = package / "lockstep" / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))
    if not module.exists():
        raise BuildError(f"'{module}' is missing; build the target lockstep_python there, with this Python")
    built = {}
    exec((package / "lockstep" / "_build.py").read_text(), built)
    if built["TORCH_VERSION"] != torch:
        raise BuildError(f"'{tree}' was built for torch {built['TORCH_VERSION']}, '{sys.executable}' has {torch}")
    return package, built["VERSION"]


def pack(package, version, folder):
    """Writes the wheel; returns its file name."""
    info = f"lockstep-{version}.dist-info"
    tag = f"{TAG}-{TAG}-{PLATFORM}"
    name = f"lockstep-{version}-{tag}.whl"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = [package / "lockstep" / file for file in ("__init__.py", "_arena.py", "_build.py", "_C" + suffix)]
    files += [package / info / file for file in ("METADATA", "entry_points.txt")]
    contents = {str(file.relative_to(package)): file.read_bytes() for file in files}
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: lockstep\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = ""
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in contents.items():
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    environment = outside_environment()
    torch = torch_version(environment)
    given = (config_settings or {}).get("build-dir")
    tree = (ROOT / given) if given else build_in_tree(environment, torch)
    package, version = package_in(tree, torch)
    return pack(package, version, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise BuildError("there is no source package: the C++ sources are outside this folder; install from a checkout")
