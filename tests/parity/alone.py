"""Data-parallel training by one process: plain autograd for each rank, and sums in the order of ranks."""

import functools

import torch

import models
from run import Run


def average(gradients):
    """As PyTorch's DDP does it: divided first, by multiplication, then summed."""
    parts = [gradient * (1 / len(gradients)) for gradient in gradients]
    if parts[0].dtype == torch.bfloat16:
        parts = [part.float() for part in parts]  # Rounded once, at the end.
    return functools.reduce(torch.add, parts).to(gradients[0].dtype)


@torch.no_grad()
def exchange(runs):
    for parameters in zip(*(run.net.parameters() for run in runs)):
        if parameters[0].requires_grad:
            total = average([parameter.grad for parameter in parameters])
            for parameter in parameters:
                parameter.grad = total.clone()


@torch.no_grad()
def copy_buffers(runs):
    for run in runs[1:]:
        for own, first in zip(run.net.buffers(), runs[0].net.buffers()):
            own.copy_(first)


def train(case, world, inputs):
    """What each rank leaves; for cases with one pass per step and all parameters used."""
    runs = []
    states = []  # Random number states, one per rank.
    for rank in range(world):
        runs.append(Run(case, rank, inputs))
        states.append(torch.get_rng_state())
    for step in range(case.steps):
        copy_buffers(runs)
        for rank, run in enumerate(runs):
            torch.set_rng_state(states[rank])
            run.backward(step)
            states[rank] = torch.get_rng_state()
        exchange(runs)
        for run in runs:
            run.optimizer.step()
    return [run.end() for run in runs]


def samples_of(case, step, world):
    """How many each rank has."""
    return case.samples[step][:world] if case.samples else [models.BATCH] * world


class Whole(Run):
    """One process on the batches of so many ranks as one, in double."""

    def __init__(self, case, parts, inputs):
        self.parts = parts
        super().__init__(case, 0, inputs)
        self.net.double()

    def batch(self, i):
        counts = samples_of(self.case, i, self.parts)
        x, y = (torch.cat([self.data[name][i, rank, :count] for rank, count in enumerate(counts)]) for name in ("x", "y"))
        return x.double(), y


def train_whole(case, parts, inputs):
    """For cases with one pass per step and without dropout."""
    run = Whole(case, parts, inputs)
    for step in range(case.steps):
        run.backward(step)
        run.optimizer.step()
    return run.end()


def loss_of_all(case, name, losses):
    """Each is the mean over a rank's batch. That of an empty one is not a number, and counts nothing."""
    counts = samples_of(case, int(name.split(".")[1]), len(losses))
    return sum(count * loss for count, loss in zip(counts, losses) if count) / sum(counts)


def assert_close(case, expected, ranks):
    """`ranks` has what each left."""
    for name, tensor in expected.items():
        found = [left[name].double() for left in ranks]
        found = [loss_of_all(case, name, found)] if name.startswith("loss.") else found
        for value in found:
            torch.testing.assert_close(value, tensor.double(), rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
