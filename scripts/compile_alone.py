#!/usr/bin/env python3
"""compile_alone.py COMPILE_COMMANDS REGEX: checks that each such file compiles by itself.

Builds join files, so that one of them can live on another's includes; here nobody can.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys


def check(command):
    arguments = shlex.split(command["command"])
    arguments[arguments.index("-o"):] = ["-fsyntax-only", "-w", command["file"]]
    result = subprocess.run(arguments, cwd=command["directory"], capture_output=True, text=True)
    return command["file"], result.returncode, result.stderr


def main():
    commands = [c for c in json.load(open(sys.argv[1])) if re.search(sys.argv[2], c["file"])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        for file, code, errors in pool.map(check, commands):
            if code != 0:
                failed += 1
                print(f"{file} does not compile by itself:\n{errors[:2000]}", flush=True)
    print(f"{len(commands) - failed} of {len(commands)} files compile by themselves")
    return 1 if failed or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
