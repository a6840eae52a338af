"""Writes what torchvision's ToTensor and Normalize make of an image that has every byte.

    to_tensor.py FILE

FILE gets the float32 values of ToTensor, then those after Normalize, of one image of 16x16 whose
three channels count up from 0, from 100 and from 200.
"""

import sys

import numpy
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main():
    start = numpy.array([0, 100, 200])
    image = (numpy.arange(256).reshape(16, 16, 1) + start).astype(numpy.uint8)
    plain = transforms.ToTensor()(image)
    normal = transforms.Normalize(MEAN, STD)(plain)
    with open(sys.argv[1], "wb") as file:
        file.write(plain.numpy().tobytes() + normal.numpy().tobytes())


if __name__ == "__main__":
    main()
