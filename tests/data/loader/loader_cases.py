"""Writes what torch.utils.data.DataLoader refuses, and in which order its samples come.

    loader_cases.py options FILE    # batch_size shuffle sampler batch_sampler drop_last num_workers timeout
                                    # prefetch_factor (-9: None) refused
    loader_cases.py order FILE      # size batch_size shuffle drop_last seed, then for each of three epochs the
                                    # number of batches and the size and indices of each; at the end a number
                                    # drawn from the default generator
"""

import itertools
import sys
import warnings

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

DATA = list(range(8))


def is_refused(batch_size, shuffle, sampler, batch_sampler, drop_last, num_workers, timeout, prefetch_factor):
    try:
        loader = DataLoader(
            DATA, batch_size, shuffle, SequentialSampler(DATA) if sampler else None,
            BatchSampler(SequentialSampler(DATA), 3, False) if batch_sampler else None, num_workers,
            drop_last=drop_last, timeout=timeout, prefetch_factor=None if prefetch_factor == -9 else prefetch_factor)
        # Some mistakes show at the first batch; none of these starts a process.
        if num_workers == 0 or prefetch_factor == 0:
            next(iter(loader))
    except (ValueError, AssertionError):
        return True
    return False


def write_options(file):
    flags = (False, True)
    for case in itertools.product((1, 4, 0), flags, flags, flags, flags, (-1, 0, 2), (-1, 0, 5), (-9, -1, 0, 2)):
        print(*(int(value) for value in case), int(is_refused(*case)), file=file)


def write_order(file):
    for size, batch_size, shuffle, drop_last, seed in itertools.product(
        (1, 2, 7, 100), (1, 3, 7), (False, True), (False, True), (0, 123456789012)
    ):
        torch.manual_seed(seed)
        loader = DataLoader(range(size), batch_size, shuffle, drop_last=drop_last)
        print(size, batch_size, int(shuffle), int(drop_last), seed, end="", file=file)
        for _ in range(3):
            print("", len(loader), end="", file=file)
            for batch in loader:
                print("", len(batch), *batch.tolist(), end="", file=file)
        print("", torch.empty((), dtype=torch.int64).random_().item(), file=file)


warnings.simplefilter("ignore")
sys.unraisablehook = lambda _: None  # A refused iterator reports here.
with open(sys.argv[2], "w") as output:
    {"options": write_options, "order": write_order}[sys.argv[1]](output)
