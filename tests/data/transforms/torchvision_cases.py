"""Does to pictures what torchvision does to Pillow images, and writes what comes out.

    torchvision_cases.py FOLDER

FOLDER/list has a line for each case: number of a picture, number of the case, operation, width, height, and
four numbers that say how. PICTURE.in has the pixels, CASE.out the result: bytes, or floats for "tensor..."
operations.
FOLDER/draws has random numbers: a name, and a hundred quantiles of each parameter that get_params() gives.
"""

import math
import random
import sys
from pathlib import Path

import numpy
import PIL
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.transforms import InterpolationMode as Mode

sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
from pillow_images import image  # noqa: E402

FILL = [1, 2, 3]
NORMALIZE = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def geometry(picture, draw, i):
    height, width = draw.randint(1, 160), draw.randint(1, 160)
    if i % 5 == 0:
        width = picture.width
    if i % 7 == 0:
        height = picture.height
    for name, mode in (("bilinear", Mode.BILINEAR), ("bicubic", Mode.BICUBIC), ("nearest", Mode.NEAREST)):
        yield name, (height, width), F.resize(picture, [height, width], mode)
    shorter = draw.randint(1, 50)
    yield "shorter", (shorter,), T.Resize(shorter)(picture)
    yield "shorter_limited", (shorter, shorter + 9), T.Resize(shorter, max_size=shorter + 9)(picture)
    yield "center_crop", (height, width), T.CenterCrop((height, width))(picture)
    padding = [draw.randint(0, 3 * side if side < 30 else 9) for side in picture.size * 2]
    for mode in ("edge", "reflect", "symmetric"):
        yield f"pad_{mode}", padding, F.pad(picture, padding, padding_mode=mode)
    bilinear = i % 2
    mode = Mode.BILINEAR if bilinear else Mode.NEAREST
    angle = draw.choice([0, 90, 180, draw.uniform(-40, 40)])
    if angle in (90, 180):  # Pillow turns by copying then; RandAugment's angles end at 30.
        angle += 1
    yield "rotate", (angle, bilinear), F.rotate(picture, angle, mode, fill=FILL)
    slope = math.degrees(math.atan(draw.uniform(-0.3, 0.3)))
    yield "shear_x", (slope, bilinear), F.affine(picture, 0.0, [0, 0], 1.0, [slope, 0.0], mode, FILL, [0, 0])
    yield "shear_y", (slope, bilinear), F.affine(picture, 0.0, [0, 0], 1.0, [0.0, slope], mode, FILL, [0, 0])
    x, y = draw.randint(-40, 40), draw.randint(-40, 40)
    yield "translate", (x, bilinear, y), F.affine(picture, 0.0, [x, y], 1.0, [0.0, 0.0], mode, FILL)


def colors(picture, draw, i):
    factor = draw.choice([0, 1, draw.uniform(0, 1), draw.uniform(1, 3)])
    yield "brightness", (factor,), F.adjust_brightness(picture, factor)
    yield "contrast", (factor,), F.adjust_contrast(picture, factor)
    yield "saturation", (factor,), F.adjust_saturation(picture, factor)
    yield "sharpness", (factor,), F.adjust_sharpness(picture, factor)
    hue = draw.uniform(-0.5, 0.5)
    yield "hue", (hue,), F.adjust_hue(picture, hue)
    yield "posterize", (1 + i % 8,), F.posterize(picture, 1 + i % 8)
    yield "solarize", (factor * 100,), F.solarize(picture, factor * 100)
    yield "autocontrast", (), F.autocontrast(picture)
    yield "equalize", (), F.equalize(picture)


def tensors(picture, draw):
    """A crop, resized, maybe flipped, and normalised: what training sees."""
    width, height = draw.randint(1, picture.width), draw.randint(1, picture.height)
    left, top = draw.randint(0, picture.width - width), draw.randint(0, picture.height - height)
    cut = F.resized_crop(picture, top, left, height, width, [48, 56])
    box = (left, top, width, height)
    yield "tensor", box, NORMALIZE(F.to_tensor(cut))
    yield "tensor_flipped", box, NORMALIZE(F.to_tensor(F.hflip(cut)))
    yield "tensor_upside_down", box, NORMALIZE(F.to_tensor(F.vflip(cut)))
    yield "tensor_evaluation", (), T.Compose([T.Resize(64), T.CenterCrop(56), T.ToTensor(), NORMALIZE])(picture)


def augmentations(picture, draw):
    """Each operation of RandAugment by itself, of each strength in turn."""
    for op in range(14):
        bins = draw.choice([31, 10])
        strength = draw.randrange(bins)
        augment = T.RandAugment(magnitude=strength, num_magnitude_bins=bins)
        name, (magnitudes, signed) = list(augment._augmentation_space(bins, picture.size[::-1]).items())[op]
        magnitude = float(magnitudes[strength]) if magnitudes.ndim else 0.0
        sign = draw.choice([-1, 1]) if signed else 1
        result = T.autoaugment._apply_op(picture, name, sign * magnitude, Mode.NEAREST, None)
        yield "augment", (op, strength, bins, sign), result


def every_color():
    axis = numpy.arange(0, 256, 5, dtype=numpy.uint8)
    pixels = numpy.stack(numpy.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(len(axis) ** 2, -1, 3)
    return Image.fromarray(pixels)


def write_cases(folder, draw):
    (folder / "pillow").write_text(PIL.__version__)
    case = 0
    with open(folder / "list", "w") as listing:
        for i in range(40):
            picture = every_color() if i == 0 else image("RGB", draw.randint(12, 160), draw.randint(12, 160), i)
            (folder / f"{i}.in").write_bytes(picture.tobytes())
            cases = list(colors(picture, draw, i))
            if i > 0:
                cases += [*geometry(picture, draw, i), *tensors(picture, draw), *augmentations(picture, draw)]
            for name, how, result in cases:
                output = result.numpy().tobytes() if isinstance(result, torch.Tensor) else result.tobytes()
                (folder / f"{case}.out").write_bytes(output)
                print(i, case, name, *picture.size, *map(repr, list(how) + [0] * (4 - len(how))), file=listing)
                case += 1


def quantiles(name, draws, listing):
    for values in zip(*draws):
        print(name, *numpy.quantile(values, numpy.linspace(0, 1, 101)), file=listing)


def write_draws(folder):
    count = 10000
    tensor = torch.zeros(3, 90, 160)
    with open(folder / "draws", "w") as listing:
        quantiles("resized_crop", [T.RandomResizedCrop.get_params(tensor, [0.08, 1.0], [3 / 4, 4 / 3])
                                   for _ in range(count)], listing)
        quantiles("crop", [T.RandomCrop.get_params(tensor, (40, 50))[:2] for _ in range(count)], listing)
        quantiles("erasing", [T.RandomErasing.get_params(tensor, [0.02, 0.33], [0.3, 3.3], [0.0])[:4]
                              for _ in range(count)], listing)
        drawn = [T.ColorJitter.get_params([0.6, 1.4], [0.5, 1.5], [0.7, 1.3], [-0.1, 0.1]) for _ in range(count)]
        quantiles("jitter", [(*order.argsort().tolist(), *factors) for order, *factors in drawn], listing)


def main():
    torch.manual_seed(1)
    folder = Path(sys.argv[1])
    write_cases(folder, random.Random(1))
    write_draws(folder)


if __name__ == "__main__":
    main()
