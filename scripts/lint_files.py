#!/usr/bin/env python3
"""lint_files.py tidy|analyze|alone COMPILE_COMMANDS REGEX: looks at these files with clang.

`tidy` is for joined files: clang-tidy without the static analyzer, which looks at no included file.
`analyze` is the static analyzer. It and `alone` compile each file by itself: builds join files, so one
of them can live on another's includes.
SINCE=COMMIT leaves out files in which nothing changed since that commit, nor in the headers that they
name. A file that was clean is not looked at again until its text, with all it includes, or the tool
changes (build/clean remembers). ALL=1 looks at everything.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

CLEAN = pathlib.Path("build/clean")
ALL = os.environ.get("ALL", "0") not in ("", "0")


def run(arguments, directory):
    return subprocess.run(arguments, cwd=directory, capture_output=True, text=True, errors="replace")


def compiler(command):
    """The compiler and its flags, without the file and without what it writes."""
    arguments = shlex.split(command["command"])
    return arguments[: arguments.index("-o")]


def tool_for(mode, command):
    if mode == "alone":
        return [*compiler(command), "-fsyntax-only", "-w", command["file"]]
    checks = {"tidy": "-clang-analyzer-*", "analyze": "-*,clang-analyzer-*,-clang-analyzer-optin.*"}[mode]
    return [os.environ.get("CLANG_TIDY", "clang-tidy"), "--quiet", f"--checks={checks}",
            "-p", os.path.abspath(sys.argv[2]), command["file"]]


def fingerprint(mode, command, tool_version):
    """A sum of what decides the verdict; comments too, since some of them silence clang-tidy."""
    text = run([*compiler(command), "-E", "-C", "-w", command["file"]], command["directory"])
    if text.returncode != 0:
        return None  # The tool will say why.
    parts = [mode, tool_version, *tool_for(mode, command), *compiler(command), text.stdout]
    parts += [pathlib.Path(name).read_text() for name in (".clang-tidy", command["file"])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def look_at(mode, command, tool_version):
    key = fingerprint(mode, command, tool_version)
    stamp = CLEAN / key if key else None
    if stamp and stamp.exists() and not ALL:
        return "known", ""
    result = run(tool_for(mode, command), command["directory"])
    if result.returncode != 0:
        return "faulty", (result.stdout + result.stderr)[:20000]
    if stamp:
        stamp.touch()
    return "clean", ""


def changed_since(commit):
    """The files, those that git does not know yet included; by path from the root."""
    names = []
    for command in (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"]):
        result = run(command, ".")
        if result.returncode != 0:
            sys.exit(f"lint_files.py: SINCE={commit}: {result.stderr.strip()}")
        names += result.stdout.splitlines()
    return set(names)


def is_changed(file, changed):
    """Whether it or a file that it names changed. A joined file names those in it, which name headers."""
    path = pathlib.Path(os.path.relpath(file))
    if str(path) in changed:
        return True
    named = re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
    if "Unity" in path.parts:
        return any(is_changed(name, changed) for name in named)
    return any(name in changed for name in named)


def main():
    mode, database, pattern = sys.argv[1:]
    commands = [c for c in json.load(open(database)) if re.search(pattern, c["file"])]
    if not commands:
        sys.exit(f"lint_files.py: no file of {database} matches {pattern}")
    since = os.environ.get("SINCE")
    if since and not ALL:
        changed = changed_since(since)
        found = len(commands)
        commands = [c for c in commands if is_changed(c["file"], changed)]
        print(f"{len(commands)} of {found} files changed since {since}; ALL=1 looks at all")
        if not commands:
            return 0
    CLEAN.mkdir(parents=True, exist_ok=True)
    if not shutil.which(tool_for(mode, commands[0])[0]):
        sys.exit(f"lint_files.py: no {tool_for(mode, commands[0])[0]}; run scripts/setup.sh check")
    version = run([tool_for(mode, commands[0])[0], "--version"], ".").stdout
    counts = {"clean": 0, "known": 0, "faulty": 0}
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        verdicts = pool.map(lambda command: look_at(mode, command, version), commands)
        for command, (verdict, errors) in zip(commands, verdicts):
            counts[verdict] += 1
            if errors:
                print(f"{command['file']}:\n{errors}", flush=True)
    print(f"{len(commands)} files in {time.monotonic() - start:.0f} s: {counts['clean']} clean,"
          f" {counts['known']} unchanged since they were, {counts['faulty']} with faults")
    return 1 if counts["faulty"] else 0


if __name__ == "__main__":
    sys.exit(main())
