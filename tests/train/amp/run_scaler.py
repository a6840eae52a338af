"""Random calls of torch.amp.GradScaler, for lockstep's to follow.

    run_scaler.py OUT    writes sequences as JSON: each call, whether it raised, and all state behind it

Floats are hexadecimal texts: every bit, infinities and NaN.
"""

import json
import random
import sys

import torch

SIZE = 3
OPTIMIZERS = [
    lambda p: torch.optim.SGD([p], lr=0.5, momentum=0.9),
    lambda p: torch.optim.Adam([p], lr=0.25, fused=True),
    lambda p: torch.optim.SGD([p], lr=0.125, fused=True),
]


class Trial:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.options = {"init_scale": self.random.choice([65536.0, 2.0**127, 3.7, 1e-40]),
                        "growth_factor": self.random.choice([2.0, 1.3]),
                        "backoff_factor": self.random.choice([0.5, 0.7]),
                        "growth_interval": self.random.choice([1, 2, 5])}
        self.enabled = seed % 10 != 9
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.enabled, **self.options)
        self.params = [torch.full((SIZE,), 1.0).requires_grad_() for _ in OPTIMIZERS]
        self.optimizers = [make(param) for make, param in zip(OPTIMIZERS, self.params)]
        self.saved = None
        self.calls = []

    def state(self):
        state = self.scaler.state_dict()
        return {"state": {key: float(value).hex() for key, value in state.items()},
                "params": [hexes(param) for param in self.params],
                "grads": [hexes(param.grad) for param in self.params]}

    def call(self, name, action, **arguments):
        raised = False
        try:
            action()
        except (RuntimeError, AssertionError, ValueError):
            raised = True
        self.calls.append({"call": name, "raised": raised, **arguments} | self.state())

    def set_grad(self, which):
        values = [self.random.gauss(0, 1) * self.random.choice([1, 1e4, 1e-6]) for _ in range(SIZE)]
        if self.random.random() < 0.2:
            values[self.random.randrange(SIZE)] = self.random.choice([float("inf"), float("-inf"), float("nan")])
        grad = torch.tensor(values)

        def action():
            self.params[which].grad = grad.clone()

        self.call("grad", action, which=which, values=hexes(grad))

    def save(self):
        self.saved = self.scaler.state_dict()

    def one(self):
        which = self.random.randrange(len(OPTIMIZERS))
        optimizer = self.optimizers[which]
        name = self.random.choices(["scale", "grad", "unscale_", "step", "update", "new_scale", "save", "load"],
                                   [4, 6, 3, 6, 6, 1, 1, 1])[0]
        if name == "scale":
            value = torch.tensor(self.random.gauss(0, 1))
            scaled = []
            self.call(name, lambda: scaled.append(self.scaler.scale(value)), value=float(value).hex())
            self.calls[-1]["scaled"] = float(scaled[0]).hex()
        elif name == "grad":
            self.set_grad(which)
        elif name == "new_scale":
            value = self.random.choice([1.0, 1024.0, 0.3])
            self.call(name, lambda: self.scaler.update(value), value=value.hex())
        elif name == "save":
            self.call(name, self.save)
        elif name == "load":
            if self.saved is not None:
                self.call(name, lambda: self.scaler.load_state_dict(self.saved))
        elif name == "update":
            self.call(name, self.scaler.update)
        elif self.params[which].grad is not None or which == 0:
            # Without gradients Python's fused optimizers fail inside, and keep a scale for the next step.
            self.call(name, lambda: getattr(self.scaler, name)(optimizer), which=which)


def hexes(tensor):
    return None if tensor is None else [float(x).hex() for x in tensor.tolist()]


def main():
    torch.set_num_threads(1)
    trials = []
    for seed in range(60):
        trial = Trial(seed)
        for _ in range(60):
            trial.one()
        trials.append({"options": trial.options, "enabled": trial.enabled, "calls": trial.calls})
    with open(sys.argv[1], "w") as file:
        json.dump(trials, file)


main()
