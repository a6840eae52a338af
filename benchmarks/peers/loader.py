#!/usr/bin/env python3
"""PyTorch's and torchvision's loaders in `lockstep bench loader`, which starts them.

    python3 loader.py PIPE PHOTOS FILES LARGE SHORTEST    # PIPE: orders, as benchmarks/orders.h says

PHOTOS, FILES and LARGE are folders of JPEGs with a folder for each class; "" leaves them out. An order is a row and
a number of workers; the answer has the seconds, the samples, and a sum in which all must agree. What takes less
than SHORTEST seconds is repeated for that long, without counting the first time, and the mean is given:

    memory W    an epoch of 60,000 samples of 28 x 28 float32 in a TensorDataset, shuffled, in batches of 256
    exact W     an epoch of PHOTOS: RandomResizedCrop(224), flip, normalise, in batches of 64
    large W     the same of LARGE
    decode 0    Pillow's Image.open(path).convert("RGB") of each of PHOTOS
    index 0     ImageFolder(FILES)
    first W     the first batch of 256 of FILES, of a loader that is new

Without torchvision the rows that need it are answered with {"missing": reason}.
"""

import gc
import json
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

try:
    import torchvision
    from torchvision import transforms as T
    MISSING = None
except ImportError as error:
    MISSING = f"this Python has no torchvision ({error})"

ORDER_BYTES = 48  # As in benchmarks/orders.h.


def epoch(dataset, batch_size, workers, check):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, shuffle=True)
    samples, total, began = 0, 0.0, time.perf_counter()
    for data, target in loader:
        samples += data.shape[0]
        total += check(data, target)
    return {"seconds": time.perf_counter() - began, "samples": samples, "sum": total}


class Loaders:
    def __init__(self, photos, files, large):
        torch.set_num_threads(1)
        numbers = torch.arange(60000)
        self.memory_set = TensorDataset(
            (numbers % 251).float().view(-1, 1, 1, 1).expand(-1, 1, 28, 28).contiguous(), numbers % 10)
        self.photos, self.files, self.large_photos = photos, files, large
        self.sets = {}

    def image_folder(self, folder, transform):
        """It stays from turn to turn, as ours does."""
        if folder not in self.sets:
            self.sets[folder] = torchvision.datasets.ImageFolder(folder, transform())
        return self.sets[folder]

    def photo_epoch(self, folder, workers):
        dataset = self.image_folder(folder, lambda: T.Compose([
            T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
            T.Normalize((.485, .456, .406), (.229, .224, .225))]))
        return epoch(dataset, 64, workers, lambda x, y: y.sum().item() + x.shape[2])

    def memory(self, workers):
        # One value of each sample and the labels: all that came, and little work.
        return epoch(self.memory_set, 256, workers, lambda x, y: x[:, 0, 5, 7].sum().item() + y.sum().item())

    def exact(self, workers):
        return self.photo_epoch(self.photos, workers)

    def large(self, workers):
        return self.photo_epoch(self.large_photos, workers)

    def decode(self, _):
        from PIL import Image
        paths = [path for path, _ in torchvision.datasets.ImageFolder(self.photos).samples]
        total, began = 0, time.perf_counter()
        for path in paths:
            with open(path, "rb") as file:
                image = Image.open(file).convert("RGB")
            total += image.getpixel((7, 5))[1]
        return {"seconds": time.perf_counter() - began, "samples": len(paths), "sum": total}

    def index(self, _):
        began = time.perf_counter()
        dataset = torchvision.datasets.ImageFolder(self.files)
        return {"seconds": time.perf_counter() - began, "samples": len(dataset), "sum": sum(dataset.targets)}

    def first(self, workers):
        dataset = self.image_folder(self.files, T.ToTensor)
        began = time.perf_counter()
        iterator = iter(DataLoader(dataset, batch_size=256, num_workers=workers))
        data, target = next(iterator)
        return {"seconds": time.perf_counter() - began, "samples": len(data), "sum": target.sum().item()}


def repeated(row, workers, shortest):
    answer = row(workers)
    if answer["seconds"] >= shortest:
        return answer
    times = []
    while sum(times) < shortest:
        answer = row(workers)
        times.append(answer["seconds"])
    return {**answer, "seconds": sum(times) / len(times)}


def main():
    pipe, photos, files, large, shortest = sys.argv[1:6]
    loaders = Loaders(photos, files, large)
    orders = os.open(pipe, os.O_RDONLY)
    while order := os.read(orders, ORDER_BYTES):
        row, workers = order.decode().split()
        if row != "memory" and MISSING:
            answer = {"missing": MISSING}
        else:
            answer = repeated(getattr(loaders, row), int(workers), float(shortest))
        print(json.dumps(answer), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
