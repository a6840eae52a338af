"""Writes what torch.utils.data's samplers with a generator give, one line per sampler.

    random_indices.py FILE

A line is: kind, size, num_samples (0: not given), replacement, seed, whether the seed is that of the
default generator, batch size and drop_last (BatchSampler around it; 0: none), and the indices of
three epochs. A line of kind 'weighted' has its weights, `size` of them, before the indices; those of
kind 'subset' choose from 7 i + 3.
"""

import random
import sys

import torch
from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler


def main():
    draw = random.Random(21)
    with open(sys.argv[1], "w") as file:
        for i in range(600):
            kind = ("random", "subset", "weighted")[i % 3]
            size = draw.randint(1, draw.choice([3, 70, 700]))
            replacement = draw.random() < 0.5
            samples = draw.randint(1, 3 * size) if draw.random() < 0.6 else 0
            if kind == "weighted":
                samples = draw.randint(1, 3 * size if replacement else size)
            seed, default = draw.randrange(2**62), draw.random() < 0.3
            if default:
                torch.manual_seed(seed)
            generator = None if default else torch.Generator().manual_seed(seed)
            batch, drop_last = draw.choice([0, draw.randint(1, 40)]), draw.random() < 0.5
            weights = []
            if kind == "random":
                sampler = RandomSampler(range(size), replacement, samples or None, generator)
            elif kind == "subset":
                sampler = SubsetRandomSampler([7 * i + 3 for i in range(size)], generator)
            else:
                weights = [draw.random() + 1e-3 for _ in range(size)]
                sampler = WeightedRandomSampler(weights, samples, replacement, generator)
            if batch:
                epochs = [index for _ in range(3) for b in BatchSampler(sampler, batch, drop_last) for index in b]
            else:
                epochs = [index for _ in range(3) for index in sampler]
            print(kind, size, samples, int(replacement), seed, int(default), batch, int(drop_last), *map(repr, weights), *epochs, file=file)


if __name__ == "__main__":
    main()
