"""Writes the indices of torch.utils.data.random_split, one line per split.

    random_split.py FILE

A line is: size, seed, whether the parts are fractions, their number, the parts, their lengths, and
the indices of all of them, one part after another.
"""

import random
import sys
import warnings

import torch
from torch.utils.data import random_split


def parts_of(draw, size, count):
    ends = sorted(draw.randint(0, size) for _ in range(count - 1))
    return [end - start for start, end in zip([0, *ends], [*ends, size])]


def main():
    warnings.simplefilter("ignore")  # Empty parts.
    draw = random.Random(3)
    with open(sys.argv[1], "w") as file:
        for i in range(300):
            size, count, seed = draw.randint(1, 300), draw.randint(1, 6), draw.randrange(2**62)
            parts = parts_of(draw, 100 if i % 2 else size, count)
            if i % 2:
                parts = [part / 100 for part in parts]
                if not 1 - 1e-9 <= sum(parts) <= 1:
                    parts = [0.25, 0.25, 0.5]
            split = random_split(range(size), parts, torch.Generator().manual_seed(seed))
            indices = [index for part in split for index in part.indices]
            print(size, seed, i % 2, len(parts), *map(repr, parts), *map(len, split), *indices, file=file)


if __name__ == "__main__":
    main()
