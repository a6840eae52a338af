"""A scripted and a traced network in half but for its batch normalization, as Apex's O2 casts one in Python.

    run_script_types.py FOLDER    writes FOLDER/script.pt and FOLDER/trace.pt in float32, and FOLDER/types.json:
                                  the type of each parameter and buffer after the cast
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

warnings.simplefilter("ignore")  # torch.jit is deprecated, and users have its files.


class BatchNorm2d(nn.Conv2d):
    """A layer of the user's own is what it is, whatever its name."""


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()), BatchNorm2d(4, 4, 3),
                         nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 2))


def main():
    folder = Path(sys.argv[1])
    torch.jit.script(make()).save(str(folder / "script.pt"))
    torch.jit.trace(make(), torch.randn(2, 3, 6, 6)).save(str(folder / "trace.pt"))
    net = make().half()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.float()
    types = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in net.state_dict().items()}
    (folder / "types.json").write_text(json.dumps(types))


main()
