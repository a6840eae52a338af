#!/usr/bin/env python3
"""Fails when an include points up or sideways between layers or rooms, or a source file has no test.

    check_layers.py ROOT    prints one line per fault; exit code 1 if there is any

It reads the #include lines of ROOT/lockstep. The tables below are the drawing of the layers: the
one place to change when a layer is added.
"""

import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# A layer may include itself and these; nothing else.
MAY_INCLUDE = {
    "base": set(),
    "cluster": {"base"},
    "net": {"base"},
    "shm": {"base"},
    "log": {"base"},
    "nn": {"device", "base"},
    "models": {"nn", "device", "base"},
    "data": {"base"},
    "checkpoint": {"base"},
    "launch": {"cluster", "base"},
    "device": {"base"},
    "comm": {"device", "net", "shm", "cluster", "base"},
    "parallel": {"comm", "nn", "device", "net", "shm", "cluster", "base"},
    "train": {"parallel", "comm", "nn", "device", "net", "shm", "cluster", "data", "models", "log",
              "launch", "checkpoint", "base"},
    "cli": {"train", "parallel", "comm", "nn", "device", "net", "shm", "cluster", "data", "models", "log", "launch",
            "checkpoint", "base"},
}
TORCH_FREE = {"base", "cluster", "net", "shm", "log", "launch", "checkpoint"}
# Folders of other layers that are torch-free too: parsers of files, which are fuzzed, and worker
# threads with what they do, which sanitizers look at.
TORCH_FREE_FOLDERS = {"data/cache", "data/decode", "data/readers", "data/transforms", "data/workers",
                      "train/run"}
# Rooms of a layer, and which other rooms of it each may include. A room may always include the headers
# that lie in the layer's own folder; those may include any room.
ROOMS = {
    "base": {
        "text": set(),
        "sockets": {"text"},
        "process": {"text"},
        "crc32c": set(),
    },
    "checkpoint": {
        "pickle": set(),
        "zip": set(),
    },
    "shm": {
        "reduce": set(),
        "segments": set(),
        "peers": {"segments", "reduce"},
        "collectives": {"peers", "segments", "reduce"},
    },
    "comm": {
        "rendezvous": set(),
        "backends": {"backends/hosts", "backends/shm", "backends/support", "rendezvous"},
        "backends/support": set(),
        "backends/local": {"backends/support"},
        "backends/gloo": {"backends/support"},
        "backends/nccl": {"backends/support"},
        "backends/mpi": {"backends/support"},
        "backends/shm": {"backends/support"},
        "backends/hosts": {"backends/shm", "backends/support"},
    },
    "parallel": {
        "autograd": set(),
        "checks": set(),
        "data_parallel": set(),
        "in_place": set(),
        "hooks": set(),
        "join": set(),
        "nn": set(),
        "buckets": {"autograd", "hooks", "in_place"},
        "delayed": {"autograd", "buckets", "in_place"},
    },
    "launch": {
        "protocol": set(),
        "command": {"protocol"},
        "job": {"protocol"},
        "node": {"command", "job", "protocol"},
        "network": {"node", "job", "protocol"},
    },
    "data": {
        "decode": set(),
        "readers": {"decode"},
        "samplers": set(),
        "workers": set(),
        "transforms": {"decode", "readers"},
        "cache": {"decode", "readers", "transforms"},
        "datasets": {"cache", "decode", "readers", "transforms", "workers"},
        "loader": {"datasets", "decode", "samplers", "transforms", "workers"},
    },
    "train": {
        "optim": set(),
        "run": set(),
        "amp": {"optim"},
        "checkpoint": {"amp", "optim"},
        "config": {"optim"},
        "input": {"config"},
        "report": {"config", "run"},
        "loop": {"amp", "checkpoint", "config", "input", "optim", "report", "run"},
        "session": {"checkpoint", "config", "input", "loop", "report", "run"},
        "program": {"config", "session"},
    },
}
UMBRELLA = "lockstep/lockstep.h"
PUBLIC_HEADERS = "cmake/public_headers.txt"
API_SECTION = "# API"  # In that file: the umbrella header and what it includes, up to the next such line.

# Sources without a test file of their own, and why.
WITHOUT_TEST = {
    r"lockstep/cli/.*": "programs; tests/system runs them as a user does",
    r"lockstep/nn/batch_norm_(cpu|gpu)\.cpp": "batch_norm_over_ranks_test.cpp and batch_norm_gpu_test.cpp",
    r"lockstep/nn/halve\.cpp": "max_pool_test.cpp compares with PyTorch what it computes",
    r"lockstep/base/crc32c/(arm|x86)\.cpp": "crc32c_test.cpp compares what this machine has with the table",
    r"lockstep/launch/job/coordinator_end\.cpp": "half of coordinator.cpp; see coordinator_test.cpp",
    r".*(/|_)(missing|stub)\.cpp": "stands in where a machine lacks something; says so and does nothing",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2|gloo)/")


class Include(NamedTuple):
    line: int
    quoted: bool
    target: str


def includes(file: Path) -> Iterator[Include]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield Include(number, match.group(1) == '"', match.group(2))


def torch_free_part(path: str) -> str | None:
    """'layer 'base'' or 'folder 'data/readers'' if this path below lockstep/ is in such a part."""
    layer, *rest = path.split("/")
    if layer in TORCH_FREE:
        return f"layer '{layer}'"
    folder = f"{layer}/{rest[0]}" if rest else ""
    return f"folder '{folder}'" if folder in TORCH_FREE_FOLDERS else None


def room_of(path: str) -> str:
    """The room of a path below lockstep/: 'backends/shm' for comm/backends/shm/work.h, '' for comm/group.h."""
    return "/".join(path.split("/")[1:-1][:2])


def fault_between_rooms(name: str, target: str) -> str | None:
    """Why a file may not include another of the same layer, both below lockstep/; None if it may."""
    layer = name.split("/")[0]
    room, other = room_of(name), room_of(target)
    rooms = ROOMS.get(layer)
    if rooms is None or room == other or not room or not other:
        return None
    for wanted in (room, other):
        if wanted not in rooms:
            return f"there is no room '{layer}/{wanted}' in the table of rooms"
    if other in rooms[room]:
        return None
    below = ", ".join(sorted(rooms[room])) or "no other room"
    return f"'{layer}/{room}' may include {below}"


def fault_of(include: Include, name: str, folder: Path) -> str | None:
    """Why the file of this name, below lockstep/, may not have this include; None if it may."""
    target = include.target
    layer = name.split("/")[0]
    torch_free = torch_free_part(name)
    if target == "torch/torch.h":
        return f"only {UMBRELLA} includes it (28 s to compile); include the narrow headers"
    if torch_free and TORCH_HEADER.match(target):
        return f"the {torch_free} is built without torch"
    if target == UMBRELLA:
        return "it is for users; include the headers that are needed"
    if include.quoted and (folder / target).exists():
        return "write the path from the root, lockstep/LAYER/FILE.h"
    if target.startswith("benchmarks/"):
        return "nothing of lockstep needs its benchmarks"
    if not target.startswith("lockstep/"):
        return None
    other = target.split("/")[1]
    if other not in MAY_INCLUDE:
        return f"there is no layer '{other}'"
    if other != layer and other not in MAY_INCLUDE[layer]:
        below = ", ".join(sorted(MAY_INCLUDE[layer])) or "no other layer"
        return f"'{layer}' may include {below}"
    if torch_free and not torch_free_part(target.removeprefix("lockstep/")):
        return f"the {torch_free} is built without torch, and that header is not"
    return fault_between_rooms(name, target.removeprefix("lockstep/")) if other == layer else None


def check_includes(root: Path, file: Path) -> Iterator[str]:
    name = file.relative_to(root).as_posix()
    if name == UMBRELLA:
        return
    inside = name.removeprefix("lockstep/")
    layer = inside.split("/")[0]
    if layer not in MAY_INCLUDE:
        yield f"{name}: there is no layer '{layer}'"
        return
    for include in includes(file):
        if fault := fault_of(include, inside, file.parent):
            yield f"{name}:{include.line}: includes {include.target}: {fault}"


def check_guard(root: Path, file: Path) -> Iterator[str]:
    if "#pragma once" not in file.read_text(encoding="utf-8").splitlines():
        yield f"{file.relative_to(root).as_posix()}: no '#pragma once'"


def check_has_test(root: Path, file: Path) -> Iterator[str]:
    name = file.relative_to(root)
    if any(re.fullmatch(pattern, name.as_posix()) for pattern in WITHOUT_TEST):
        return
    test = Path("tests", *name.parts[1:]).with_name(f"{file.stem}_test.cpp")
    if not (root / test).exists():
        yield f"{name.as_posix()}: no {test.as_posix()}"


def check_api(root: Path, lines: list[str]) -> Iterator[str]:
    """The umbrella header is the list of the API, so the installed headers name the same ones."""
    listed, section = set(), ""
    for line in lines:
        if line.startswith("#"):
            section = line
        elif line and section.startswith(API_SECTION):
            listed.add(line)
    included = {include.target for include in includes(root / UMBRELLA) if include.quoted}
    for name in sorted(listed - included - {UMBRELLA}):
        yield f"{PUBLIC_HEADERS}: '{name}' is listed as API, but {UMBRELLA} does not include it"
    for name in sorted((included | {UMBRELLA}) - listed):
        yield f"{PUBLIC_HEADERS}: '{name}' is API, but not listed below '{API_SECTION}'"


def check_public_headers(root: Path) -> Iterator[str]:
    """The installed headers must exist and include nothing of ours that is not installed."""
    listing = root / PUBLIC_HEADERS
    if not listing.exists():
        return
    lines = listing.read_text().splitlines()
    yield from check_api(root, lines)
    public = [line for line in lines if line and not line.startswith("#")]
    for name in public:
        if not (root / name).exists():
            yield f"{PUBLIC_HEADERS}: '{name}' does not exist"
            continue
        for include in includes(root / name):
            if include.target.startswith("lockstep/") and include.target not in public:
                yield (f"{name}:{include.line}: includes {include.target}: an installed header needs it, "
                       f"but {PUBLIC_HEADERS} does not list it")


def faults(root: Path) -> Iterator[str]:
    yield from check_public_headers(root)
    for file in sorted((root / "lockstep").rglob("*")):
        if file.suffix in {".h", ".hpp", ".cpp", ".cu", ".cuh"}:
            yield from check_includes(root, file)
        if file.suffix in {".h", ".hpp", ".cuh"}:
            yield from check_guard(root, file)
        if file.suffix == ".cpp":
            yield from check_has_test(root, file)


def main() -> int:
    found = list(faults(Path(sys.argv[1])))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
