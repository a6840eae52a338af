"""Makes a folder of images and writes what torchvision's ImageFolder gives for it.

    image_folder.py FOLDER

FOLDER/images is the folder. FOLDER/list gets a line for each sample: label, sum of its pixels as
convert("RGB") has them, and its path from FOLDER/images.
"""

import sys
from pathlib import Path

import numpy
from PIL import Image
from torchvision.datasets import ImageFolder

NAMES = ["b/2.jpg", "b/10.JPG", "b/1.png", "b/sub-x/0.png", "b/sub/0.png", "b/sub/deep/z.ppm", "b/Sub/0.jpeg",
         "a b/ünï.jpg", "a b/~.pgm", "Z/one.jpeg", "é/1.png"]


def main():
    root = Path(sys.argv[1]) / "images"
    for i, name in enumerate(NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = numpy.random.default_rng(i).integers(0, 256, (5 + i, 7, 3), numpy.uint8)
        Image.fromarray(pixels).convert("L" if name.endswith("pgm") else "RGB").save(root / name)
    (root / "b" / "notes.txt").write_text("no image")
    with open(Path(sys.argv[1]) / "list", "w") as file:
        for (path, _), (image, label) in zip((dataset := ImageFolder(root)).samples, dataset):
            print(label, int(numpy.asarray(image, numpy.int64).sum()), Path(path).relative_to(root), file=file)


if __name__ == "__main__":
    main()
