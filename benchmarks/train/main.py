#!/usr/bin/env python3
"""`lockstep bench train`: whole runs of `lockstep train` beside the same training in Python."""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

import decode
import gpu
import nodes
import nonfinite
import restart
import throughput

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = {**dict.fromkeys(throughput.ROWS, throughput), "restart": restart, "nodes": nodes, "nonfinite": nonfinite, "gpu": gpu,
        "decode": decode}
IF_ASKED = ("gpu", "decode")
EPILOG = """rows: fashion-mnist (images/s of the convnet), folder (JPEGs with a network so small that loading decides),
resnet18 (the same JPEGs), restart (seconds until a killed rank's job goes on), nodes (two nodes of one core each beside
one; needs root and iproute2), nonfinite (images/s of the convnet with --nonfinite abort beside ignore), gpu (ResNet-50 on
JPEGs on a GPU), decode (accuracy with --decode fast beside exact); the last two only if they are asked for.
The peer is benchmarks/peers/train.py under torchrun."""


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return int(text)


def workers(text):
    if min(counts := [int(count) for count in text.split(",")]) < 0:
        raise argparse.ArgumentTypeError(f"{text} has a negative number")
    return counts


def rows(text):
    names = text.split(",")
    for name in names:
        if name not in ROWS:
            raise argparse.ArgumentTypeError(f"there is no row '{name}', expected some of {', '.join(ROWS)}")
    return names


def parse():
    parser = argparse.ArgumentParser(prog="lockstep bench train", description=__doc__.split(": ")[1], epilog=EPILOG)
    parser.add_argument("--rows", type=rows, default=[name for name in ROWS if name not in IF_ASKED],
                        help="which, separated by commas; all but gpu and decode")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each side; medians are shown")
    parser.add_argument("--ranks", type=positive, default=2, help="of each job, except in row nodes")
    parser.add_argument("--workers", type=workers, default=[0, 1, 2], help="numbers that PyTorch's DataLoader tries")
    parser.add_argument("--gpu-workers", type=workers, default=[8, 16], help="the same in row gpu")
    parser.add_argument("--data", type=pathlib.Path, default=throughput.FASHION_MNIST, help="folder of Fashion-MNIST's files")
    parser.add_argument("--photos", type=positive, default=1000, help="JPEGs that are made up")
    parser.add_argument("--restart-batch-size", type=positive, default=64, help="of a rank in row restart")
    parser.add_argument("--seeds", type=positive, default=3, help="of rows nodes and decode")
    parser.add_argument("--epochs", type=positive, default=5, help="of rows nodes and decode")
    parser.add_argument("--global-batch-size", type=positive, default=128, help="of row nodes")
    parser.add_argument("--json", action="store_true", help="one object per row")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch and torchvision; '' leaves PyTorch out")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    for number in (signal.SIGTERM, signal.SIGHUP):  # Nothing is left behind.
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        options.folder = pathlib.Path(folder)
        for part in dict.fromkeys(ROWS[name] for name in options.rows):
            tables = [part.measure(options, name) for name in options.rows if ROWS[name] is part]
            if options.json:
                for table in tables:
                    print(json.dumps({"bench": "train", "cores": len(os.sched_getaffinity(0)), "arch": os.uname().machine, **table}), flush=True)
            else:
                part.show(options, tables)


if __name__ == "__main__":
    main()
