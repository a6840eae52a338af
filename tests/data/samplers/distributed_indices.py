"""Writes what torch.utils.data.DistributedSampler gives, one line per rank and epoch.

    distributed_indices.py FILE

A line is: size replicas rank shuffle seed drop_last epoch length, and the indices.
"""

import itertools
import random
import sys

from torch.utils.data import DistributedSampler

SIZES = [0, 1, 2, 3, 5, 7, 8, 16, 97, 1000]
REPLICAS = [1, 2, 3, 4, 7, 16]


def lines(size, replicas, rank, shuffle, seed, drop_last, epochs=(0, 1, 12)):
    sampler = DistributedSampler(range(size), num_replicas=replicas, rank=rank, shuffle=shuffle,
                                 seed=seed, drop_last=drop_last)
    for epoch in epochs:
        sampler.set_epoch(epoch)
        yield (size, replicas, rank, int(shuffle), seed, int(drop_last), epoch, len(sampler), *sampler)


def main():
    with open(sys.argv[1], "w") as file:
        for size, replicas, shuffle, seed, drop_last in itertools.product(
            SIZES, REPLICAS, (False, True), (0, 42), (False, True)
        ):
            for rank in range(replicas):
                for line in lines(size, replicas, rank, shuffle, seed, drop_last):
                    print(*line, file=file)
        # Anything, often with fewer samples than ranks.
        draw = random.Random(16)
        for _ in range(600):
            size, replicas = draw.choice([draw.randrange(20), draw.randrange(3000)]), draw.randint(1, 40)
            for line in lines(size, replicas, draw.randrange(replicas), draw.random() < 0.8, draw.randrange(2**62),
                              draw.random() < 0.5, (draw.randrange(100000),)):
                print(*line, file=file)
        # Large, as a data set is, and seeds that need more than 32 bits.
        for line in lines(60000, 4, 3, True, 2**40 + 1, False):
            print(*line, file=file)
        for line in lines(1281167, 256, 255, True, 0, True):
            print(*line, file=file)


if __name__ == "__main__":
    main()
