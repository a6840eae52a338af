"""torch.save beside lockstep's checkpoints: `lockstep bench checkpoint` starts it.

    checkpoint.py PIPE FOLDER MEGABYTES

Orders: "save" is torch.save alone; "fsync" also waits for the disk, and renames, as a careful user does.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

ORDER_BYTES = 48
TENSORS = 100


def save(checkpoint, path):
    torch.save(checkpoint, path)


def fsync(checkpoint, path):
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def main():
    pipe, folder, megabytes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    model = {f"layer{i}": torch.rand(megabytes * 1_000_000 // 4 // TENSORS) for i in range(TENSORS)}
    count = sum(tensor.nbytes for tensor in model.values())
    orders = os.open(pipe, os.O_RDONLY)
    while order := os.read(orders, ORDER_BYTES):
        began = time.perf_counter()
        {"save": save, "fsync": fsync}[order.decode().strip()]({"model": model}, folder / "torch.pt")
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "pause": seconds, "bytes": count}), flush=True)


if __name__ == "__main__":
    main()
