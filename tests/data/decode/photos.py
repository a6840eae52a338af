"""Writes JPEG files like photographs: as much of each size of detail as photographs have.

    photos.py FOLDER    writes FOLDER/0.jpg ... FOLDER/7.jpg
"""

import sys
from pathlib import Path

import numpy
from PIL import Image

SETTINGS = [("4:2:0", False), ("4:4:4", False), ("4:2:2", False), ("4:2:0", True)]


def photo(width, height, seed):
    """Amplitudes fall with frequency, as in nature, and colours differ less than brightness does."""
    noise = numpy.random.default_rng(seed)
    y, x = numpy.meshgrid(numpy.fft.fftfreq(height), numpy.fft.fftfreq(width), indexing="ij")
    amplitude = 1 / numpy.maximum(numpy.hypot(x, y), 1 / max(width, height)) ** 1.2
    planes = []
    for strength in (50, 15, 15):
        plane = numpy.fft.ifft2(amplitude * numpy.exp(2j * numpy.pi * noise.random((height, width)))).real
        planes.append(strength * plane / plane.std())
    light, blue, red = planes
    pixels = numpy.stack([128 + light + red, 128 + light - 0.5 * red - 0.3 * blue, 128 + light + blue], axis=2)
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))


def main():
    folder = Path(sys.argv[1])
    for i in range(8):
        subsampling, progressive = SETTINGS[i % 4]
        photo(640 + 37 * i, 480 + 23 * i, i).save(
            folder / f"{i}.jpg", quality=80 + 2 * i, subsampling=subsampling, progressive=progressive)


if __name__ == "__main__":
    main()
