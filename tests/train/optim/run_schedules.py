"""torch.optim.lr_scheduler's schedules over many epochs, for lockstep's to follow.

    run_schedules.py FOLDER             writes FOLDER/pythons: for each case all rates, and the states of
                                        schedule and optimizer after half of the epochs
    run_schedules.py FOLDER continue    goes on from FOLDER/ours, which has lockstep's states, and writes
                                        the rates to FOLDER/continued
    run_schedules.py FOLDER save        writes a checkpoint FOLDER/CASE.pt after half of the epochs, and the
                                        rates behind it to FOLDER/continued
    run_schedules.py FOLDER resume      goes on from lockstep's checkpoints FOLDER/CASE/last.pt, and writes
                                        the rates to FOLDER/continued

Rates are hexadecimal texts: every bit.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch
from torch.optim import lr_scheduler as lrs

EPOCHS, HALF = 200, 73
CASES = {
    "step": lambda o: lrs.StepLR(o, 30),
    "step_odd": lambda o: lrs.StepLR(o, 7, gamma=0.83),
    "multistep": lambda o: lrs.MultiStepLR(o, [30, 60, 60, 90], gamma=0.3),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, 200),
    "cosine_again": lambda o: lrs.CosineAnnealingLR(o, 30, eta_min=1e-5),
    "linear": lambda o: lrs.LinearLR(o, 0.01, total_iters=90),
    "linear_down": lambda o: lrs.LinearLR(o, 1.0, end_factor=0.1, total_iters=13),
    "warmup_cosine": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.01, total_iters=5), lrs.CosineAnnealingLR(o, 195, eta_min=1e-6)], [5]),
    "warmup_step": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.033, total_iters=100), lrs.StepLR(o, 30, gamma=0.9)], [100]),
    "warmup_multistep": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.1, total_iters=90), lrs.MultiStepLR(o, [10, 30, 30])], [90]),
    "three": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.5, total_iters=3), lrs.MultiStepLR(o, [10]), lrs.LinearLR(o, 0.2, total_iters=9)],
        [4, 80]),
}


def make(name):
    params = [torch.zeros(2).requires_grad_() for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.0317}], lr=0.1)
    return optimizer, CASES[name](optimizer)


def train(optimizer, schedule, epochs):
    rates = []
    for _ in range(epochs):
        optimizer.step()
        schedule.step()
        rates.append([float(group["lr"]).hex() for group in optimizer.param_groups])
        assert [float(lr).hex() for lr in schedule.get_last_lr()] == rates[-1]
    return rates


def restored(state):
    """JSON's keys are texts; Python's milestones are numbers."""
    state = dict(state)
    if isinstance(state.get("milestones"), dict):
        state["milestones"] = Counter({int(key): count for key, count in state["milestones"].items()})
    if "_schedulers" in state:
        state["_schedulers"] = [restored(inner) for inner in state["_schedulers"]]
    return state


def through_file(folder, name, mode):
    optimizer, schedule = make(name)
    if mode == "save":
        train(optimizer, schedule, HALF)
        torch.save({"model": {}, "optimizer": optimizer.state_dict(), "lr_scheduler": schedule.state_dict()},
                   folder / f"{name}.pt")
    else:
        checkpoint = torch.load(folder / name / "last.pt", weights_only=True)
        optimizer.load_state_dict(checkpoint["optimizer"])
        schedule.load_state_dict(checkpoint["lr_scheduler"])
        assert schedule.state_dict().keys() == make(name)[1].state_dict().keys()
    return train(optimizer, schedule, EPOCHS - HALF)


def main():
    folder = Path(sys.argv[1])
    result = {}
    for name in CASES:
        if sys.argv[2:] in (["save"], ["resume"]):
            result[name] = through_file(folder, name, sys.argv[2])
            continue
        optimizer, schedule = make(name)
        if sys.argv[2:] == ["continue"]:
            ours = json.loads((folder / "ours").read_text())[name]
            for group, lr in zip(optimizer.param_groups, ours["lr"]):
                group["lr"] = lr
            schedule.load_state_dict(restored(ours["state"]))
            result[name] = train(optimizer, schedule, EPOCHS - HALF)
        else:
            first = [float(group["lr"]).hex() for group in optimizer.param_groups]
            rates = [first] + train(optimizer, schedule, HALF)
            half = {"state": schedule.state_dict(), "lr": [group["lr"] for group in optimizer.param_groups]}
            half = json.loads(json.dumps(half))
            result[name] = {"half": half, "rates": rates + train(optimizer, schedule, EPOCHS - HALF)}
    name = "continued" if sys.argv[2:] else "pythons"
    (folder / name).write_text(json.dumps(result))


main()
