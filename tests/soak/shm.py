#!/usr/bin/env python3
"""Kills ranks in the middle of shared-memory collectives, a thousand times.

    shm.py [--kills 500]    that many at two ranks and again at four; exit code 1 if anything is wrong
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    kills = str(parser.parse_args().kills)
    codes = [subprocess.run([BIN / "shm_kills", kills, ranks], check=False).returncode for ranks in ("2", "4")]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
