"""Twelve steps of torch.optim's optimizers, for a comparison bit by bit with lockstep::optim.

    run_optim.py FOLDER           writes parameters and state after 6 and 12 steps, NAME.half and NAME.end,
                                  and the parameter groups after 6, NAME.groups
    run_optim.py FOLDER continue  goes on from NAME.ours and NAME.json, which lockstep wrote after 6
                                  steps, and writes NAME.continued

Gradients are drawn with a seed for each step and parameter; one parameter has none in some steps.
"""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))
import tensor_file  # noqa: E402

SHAPES = [(7, 5), (3,), (2, 3, 4, 4), (1,)]
HALF, END = 6, 12


def groups(params):
    return [{"params": params[:2], "lr": 0.2}, {"params": params[2:], "momentum": 0.5, "weight_decay": 0.1}]


CASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_dampened": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.7, dampening=0.3, maximize=True),
    "sgd_groups": lambda p: torch.optim.SGD(groups(p), lr=0.1),
    "sgd_double": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "adam": lambda p: torch.optim.Adam(p),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.02, eps=1e-6, amsgrad=True, maximize=True),
    "adamw": lambda p: torch.optim.AdamW(p),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.2, amsgrad=True),
}


def dtype_of(name):
    return torch.float64 if name.endswith("double") else torch.float32


def make(name):
    torch.manual_seed(7)
    params = [torch.randn(shape, dtype=dtype_of(name)).requires_grad_() for shape in SHAPES]
    return params, CASES[name](params)


def train(params, optimizer, first, last):
    for step in range(first, last):
        for i, param in enumerate(params):
            torch.manual_seed(1000 * step + i)
            param.grad = None if (i + step) % 4 == 0 and i == 1 else torch.randn_like(param)
        if step == HALF + 2:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5
        optimizer.step()


def contents(params, optimizer):
    tensors = {f"param.{i}": param for i, param in enumerate(params)}
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:
                tensors[f"state.{number}.{key}"] = value
    return tensors


def load(folder, name, params, optimizer):
    tensors = tensor_file.read(folder / f"{name}.ours")
    state = {}
    for key, value in tensors.items():
        kind, number, *rest = key.split(".")
        if kind == "param":
            with torch.no_grad():
                params[int(number)].copy_(value)
        else:
            state.setdefault(int(number), {})[rest[0]] = value
    param_groups = json.loads((folder / f"{name}.json").read_text())
    optimizer.load_state_dict({"state": state, "param_groups": param_groups})


def main():
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    for name in CASES:
        params, optimizer = make(name)
        if sys.argv[2:] == ["continue"]:
            load(folder, name, params, optimizer)
            train(params, optimizer, HALF, END)
            tensor_file.write(folder / f"{name}.continued", contents(params, optimizer))
        else:
            train(params, optimizer, 0, HALF)
            tensor_file.write(folder / f"{name}.half", contents(params, optimizer))
            (folder / f"{name}.groups").write_text(json.dumps(optimizer.state_dict()["param_groups"]))
            train(params, optimizer, HALF, END)
            tensor_file.write(folder / f"{name}.end", contents(params, optimizer))


main()
