#!/usr/bin/env python3
"""class_photos.py FOLDER FIRST COUNT: so many JPEGs of 500 x 375 in FOLDER/c0 to c9, whose class can be learned.

A class is one of five colours in stripes of one of two directions, which a mirrored crop of any size still shows, under
light and grain as in photographs. The same pixels on every machine."""

import pathlib
import sys

import numpy
from PIL import Image

WIDTH, HEIGHT = 500, 375
COLOURS = numpy.array([[1, 0.3, 0.3], [0.3, 1, 0.3], [0.3, 0.3, 1], [1, 1, 0.2], [0.2, 1, 1]])


def smooth(random, cell):
    """Random light that changes over so many pixels."""
    small = random.normal(0, 1, (HEIGHT // cell + 2, WIDTH // cell + 2)).astype("float32")
    return numpy.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


def photo(number):
    random = numpy.random.default_rng(number)
    colour, direction = number % 10 // 2, number % 2
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    stripes = numpy.sin((x if direction else y) / random.uniform(6, 14) + random.uniform(0, 6))
    light = 110 + 45 * smooth(random, 150) + 20 * smooth(random, 25) + random.normal(0, 18, (HEIGHT, WIDTH))
    pixels = light[..., None] + 14 * (stripes[..., None] + 1) * COLOURS[colour] + random.normal(0, 10, (HEIGHT, WIDTH, 3))
    return Image.fromarray(pixels.clip(0, 255).astype("uint8"))


def main(folder, first, count):
    for number in range(int(first), int(first) + int(count)):
        path = pathlib.Path(folder) / f"c{number % 10}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(number).save(path, quality=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
