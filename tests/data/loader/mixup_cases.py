"""What torchvision's v2.MixUp and v2.CutMix make of batches, for given draws, and what they draw.

    mixup_cases.py FOLDER

FOLDER/list has a line for each case: its number, MixUp or CutMix, batch, channels, height, width, classes, whether
labels are probabilities, and lambda or the box (left, top, width, height). N.in has the images as float32 and then the
labels, int64 or float32; N.out the results, float32. FOLDER/draws has a line for each number that is drawn: a name and
the quantiles, a percent apart.
"""

import sys

import numpy
import torch
from torchvision.transforms import v2

DRAWS = 10000


def case(number, kind, generator):
    shape = [int(torch.randint(1, limit, (), generator=generator)) for limit in (7, 4, 20, 20)]
    classes = int(torch.randint(2, 8, (), generator=generator))
    images = torch.randn(shape, generator=generator)
    labels = torch.randint(classes, shape[:1], generator=generator)
    if number % 3 == 0:
        labels = torch.rand((shape[0], classes), generator=generator)
    transform = getattr(v2, kind)(num_classes=classes)
    if kind == "MixUp":
        how = [float(torch.rand((), generator=generator, dtype=torch.float64))]
        transform.make_params = lambda _: {"lam": how[0]}
    else:
        height, width = shape[2:]
        left, right = sorted(int(torch.randint(width + 1, (), generator=generator)) for _ in range(2))
        top, bottom = sorted(int(torch.randint(height + 1, (), generator=generator)) for _ in range(2))
        how = [left, top, right - left, bottom - top]
        lam = float(1.0 - (right - left) * (bottom - top) / (width * height))
        transform.make_params = lambda _: {"box": (left, top, right, bottom), "lam_adjusted": lam}
    return shape, classes, images, labels, how, transform(images, labels)


def main():
    folder = sys.argv[1]
    generator = torch.Generator().manual_seed(5)
    with open(f"{folder}/list", "w") as file:
        for number in range(120):
            kind = ("MixUp", "CutMix")[number % 2]
            shape, classes, images, labels, how, results = case(number, kind, generator)
            print(number, kind, *shape, classes, int(labels.ndim == 2), *map(repr, how), file=file)
            with open(f"{folder}/{number}.in", "wb") as data:
                data.write(images.numpy().tobytes() + labels.numpy().tobytes())
            with open(f"{folder}/{number}.out", "wb") as data:
                for result in results:
                    assert result.dtype == torch.float32
                    data.write(result.contiguous().numpy().tobytes())
    torch.manual_seed(1)
    percents = numpy.arange(101)
    with open(f"{folder}/draws", "w") as file:
        for alpha in (0.2, 1.0, 2.5):
            mixup = v2.MixUp(alpha=alpha, num_classes=10)
            lams = [mixup.make_params([])["lam"] for _ in range(DRAWS)]
            print(f"mixup-{alpha}", *numpy.percentile(lams, percents), file=file)
            cutmix = v2.CutMix(alpha=alpha, num_classes=10)
            batch = [torch.zeros(1, 3, 90, 160)]
            boxes = numpy.array([cutmix.make_params(batch)["box"] for _ in range(DRAWS)])
            boxes[:, 2:] -= boxes[:, :2]
            for column in range(4):
                print(f"cutmix-{alpha}", *numpy.percentile(boxes[:, column], percents), file=file)


if __name__ == "__main__":
    main()
