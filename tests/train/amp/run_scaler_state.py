"""A torch.amp.GradScaler that goes from Python to lockstep in a checkpoint file, and the reverse.

    run_scaler_state.py FOLDER save      seven steps, then the checkpoint FOLDER/python.pt; the scales of
                                         the steps behind it go to FOLDER/scales
    run_scaler_state.py FOLDER resume    goes on from lockstep's FOLDER/ours/last.pt
"""

import json
import math
import sys
from pathlib import Path

import torch


def scales(scaler, first, last):
    param = torch.full((2,), 1.0).requires_grad_()
    optimizer = torch.optim.SGD([param], lr=0.1)
    result = []
    for step in range(first, last):
        optimizer.zero_grad()
        scaler.scale(param.sum() * (math.inf if step == 4 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        result.append(scaler.get_scale())
    return result


def main():
    folder = Path(sys.argv[1])
    if sys.argv[2] == "save":
        scaler = torch.amp.GradScaler(
            "cpu", init_scale=1024, growth_factor=1.5, backoff_factor=0.25, growth_interval=3)
        scales(scaler, 0, 7)
        torch.save({"model": {}, "scaler": scaler.state_dict()}, folder / "python.pt")
    else:
        scaler = torch.amp.GradScaler("cpu")
        saved = torch.load(folder / "ours" / "last.pt", weights_only=True)["scaler"]
        assert saved.keys() == scaler.state_dict().keys()
        scaler.load_state_dict(saved)
    (folder / "scales").write_text(json.dumps(scales(scaler, 7, 20)))


main()
