"""Writes the files in seeds/ with the torch and safetensors-like bytes of today.

    make_seeds.py        # in this folder; needs torch
"""

import argparse
import collections
import io
import json
import struct
import zipfile
from pathlib import Path

import torch

HERE = Path(__file__).parent / "seeds"


def save(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def torchvision_checkpoint():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.randn(4, 3)).square().sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(),
        "epoch": 3,
        "args": argparse.Namespace(lr=0.1, model="resnet18", resume=None, device=torch.device("cuda", 0)),
        "scaler": {},
    }


def all_kinds():
    return {
        "none": None, "flags": [True, False], "ints": (0, 255, 256, 65536, -1, -(2**40), 2**62),
        "float": 0.1, "text": "ü" * 3, "bytes": b"\x00\x80\xff", "bytearray": bytearray(b"ab"),
        "counter": collections.Counter({3: 1}), "set": {1}, "size": torch.Size([1, 2]),
        "dtype": torch.float16, "device": torch.device("cpu"), "empty": torch.zeros(0), "scalar": torch.tensor(2.5),
        "view": torch.arange(6).view(2, 3).t(), "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.ones(2, dtype=torch.float16), "untyped": torch.ones(2, dtype=torch.uint16),
        "float8": torch.ones(2).to(torch.float8_e4m3fn), "bool": torch.tensor([True]),
        "complex": torch.ones(1, dtype=torch.complex64), 7: {"nested": [{}, [], ()]},
    }


def safetensors(tensors, metadata=None):
    header = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def main():
    files = {"torchvision": save(torchvision_checkpoint()), "kinds": save(all_kinds()),
             "one": save({"a": torch.ones(1)})}
    for name, content in files.items():
        for kind in ("pt", "pickle"):
            (HERE / kind).mkdir(parents=True, exist_ok=True)
        (HERE / "pt" / f"{name}.pt").write_bytes(content)
        pickle = zipfile.ZipFile(io.BytesIO(content)).read("archive/data.pkl")
        (HERE / "pickle" / f"{name}.pkl").write_bytes(pickle)
    (HERE / "safetensors").mkdir(exist_ok=True)
    tensors = {"w": ("F32", [2, 3], bytes(24)), "b": ("I8", [2], b"ab"), "e": ("F16", [0], b"")}
    two = safetensors(tensors, {"format": "pt"})
    (HERE / "safetensors" / "two.safetensors").write_bytes(two)
    (HERE / "safetensors" / "none.safetensors").write_bytes(safetensors({}))


main()
