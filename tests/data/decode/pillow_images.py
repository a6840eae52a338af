"""Writes image files of every kind, and what Pillow makes of them.

    pillow_images.py FOLDER

FOLDER/list gets a line for each file: name, and width and height as Image.open().convert("RGB") has
them, or 0 0 if Pillow refuses the file. NAME.rgb has the pixels, NAME.turned those of a JPEG after
ImageOps.exif_transpose().
"""

import io
import random
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numpy
from PIL import Image, ImageOps


def picture(width, height, channels, seed=0):
    """Smooth colours, edges and some noise: what photographs are made of."""
    y, x = numpy.mgrid[0:height, 0:width]
    noise = numpy.random.default_rng(seed)
    planes = [
        128 + 90 * numpy.sin(x / (5 + 3 * c) + c) * numpy.cos(y / (7 + 2 * c)) + 60 * ((x + y) // 11 % 2)
        + noise.normal(0, 12, (height, width))
        for c in range(channels)
    ]
    return numpy.clip(numpy.stack(planes, axis=2), 0, 255).astype(numpy.uint8)


def image(mode, width, height, seed=0):
    pixels = picture(width, height, len(Image.new(mode, (1, 1)).getbands()), seed)
    return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels, mode)


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def segment(jpeg, marker):
    """Where a segment begins, and how long it is with its marker."""
    at = jpeg.index(bytes([0xFF, marker]))
    return at, 2 + struct.unpack(">H", jpeg[at + 2 : at + 4])[0]


def without(jpeg, marker):
    at, length = segment(jpeg, marker)
    return jpeg[:at] + jpeg[at + length :]


def with_byte(data, at, value):
    return data[:at] + bytes([value]) + data[at + 1 :]


def jpegs():
    for width, height in [(64, 48), (67, 41), (1, 1), (8, 200), (203, 3)]:
        size = f"{width}x{height}"
        rgb = image("RGB", width, height, width)
        for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
            name = f"{size}-{subsampling.replace(':', '')}"
            yield f"{name}.jpg", encoded(rgb, "JPEG", subsampling=subsampling, quality=85)
            yield f"{name}-progressive.jpg", encoded(
                rgb, "JPEG", subsampling=subsampling, quality=60, progressive=True)
            yield f"{name}-restarts.jpg", encoded(rgb, "JPEG", subsampling=subsampling, restart_marker_blocks=3)
        yield f"{size}-rows.jpg", encoded(rgb, "JPEG", restart_marker_rows=1, optimize=True)
        yield f"{size}-rgb.jpg", encoded(rgb, "JPEG", keep_rgb=True)
        yield f"{size}-gray.jpg", encoded(image("L", width, height), "JPEG", quality=70)
        yield f"{size}-gray-progressive.jpg", encoded(image("L", width, height), "JPEG", progressive=True)
        cmyk = encoded(image("CMYK", width, height), "JPEG", quality=80)
        yield f"{size}-cmyk.jpg", cmyk
        yield f"{size}-cmyk-progressive.jpg", encoded(image("CMYK", width, height), "JPEG", progressive=True)
        yield f"{size}-cmyk-not-adobe.jpg", without(cmyk, 0xEE)
        at, length = segment(cmyk, 0xEE)
        yield f"{size}-ycck.jpg", with_byte(cmyk, at + length - 1, 2)
        yield f"{size}-quality1.jpg", encoded(rgb, "JPEG", quality=1)
        yield f"{size}-quality100.jpg", encoded(rgb, "JPEG", quality=100, subsampling="4:4:4")

    # 4:4:0, which Pillow does not write: as many blocks of a square picture in another order.
    wide = encoded(image("RGB", 64, 64), "JPEG", subsampling="4:2:2")
    at, _ = segment(wide, 0xC0)
    assert wide[at + 11] == 0x21
    yield "440.jpg", with_byte(wide, at + 11, 0x12)
    yield "wider-than-high.jpg", encoded(image("RGB", 300, 200), "JPEG", subsampling="4:2:0", quality=75)

    plain = encoded(image("RGB", 67, 41), "JPEG")
    yield "behind-the-end.jpg", plain + b"more bytes" * 9
    yield "no-end-marker.jpg", plain[:-2]
    progressive = encoded(image("RGB", 67, 41), "JPEG", progressive=True)
    yield "progressive-no-end-marker.jpg", progressive[:-2]
    for cut in (2, 3, 20, 200, 400, 600, 700, 900, len(plain) - 20, len(plain) - 3):
        yield f"cut-{cut}.jpg", plain[:cut]
        yield f"progressive-cut-{cut}.jpg", progressive[:cut]
    yield "two-bytes-lost.jpg", plain[:800] + plain[802:]
    at, _ = segment(plain, 0xC0)
    yield "twelve-bits.jpg", with_byte(plain, at + 4, 12)
    yield "two-channels.jpg", with_byte(plain, at + 9, 2)
    yield "no-huffman-table.jpg", without(plain, 0xC4)
    yield "png-in-disguise.jpg", encoded(image("RGB", 20, 10), "PNG")
    for orientation in range(10):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"exif-{orientation}.jpg", encoded(image("RGB", 37, 23), "JPEG", exif=exif)
        exif[0x010F] = "a maker"
        big = exif.tobytes()
        yield f"exif-more-{orientation}.jpg", encoded(image("RGB", 37, 23), "JPEG", exif=big, comment="before it")


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(width, height, depth, colour, *, interlaced=False, extra=b"", filters=True, seed=0):
    """Any depth and kind of colour; Pillow writes only some. Samples are random."""
    draw = random.Random(seed)
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    data = b""
    for x, y, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        for _ in range(max(rows, 0) if columns > 0 else 0):
            # Small 16-bit numbers too: gray ones are cut, not scaled.
            row = bytes(draw.choice([0, draw.randrange(256)]) for _ in range((columns * bits + 7) // 8))
            data += bytes([draw.randrange(5) if filters else 0]) + row
    palette = bytes(draw.randrange(256) for _ in range(3 * min(200, 2**depth))) if colour == 3 else b""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + (chunk(b"PLTE", palette) if palette else b"") + extra
            + chunk(b"IDAT", zlib.compress(data)[:40]) + chunk(b"IDAT", zlib.compress(data)[40:]) + chunk(b"IEND", b""))


def pngs():
    kinds = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
    for colour, depths in kinds.items():
        for depth in depths:
            for width, height in [(1, 1), (3, 2), (17, 13), (64, 5)]:
                for interlaced in (False, True):
                    way = "-interlaced" if interlaced else ""
                    yield f"png-{colour}-{depth}-{width}x{height}{way}.png", png(
                        width, height, depth, colour, interlaced=interlaced, seed=width)
    gray, colour, clear = struct.pack(">H", 5), struct.pack(">HHH", 1, 2, 3), bytes([0, 128, 255])
    yield "transparent-gray.png", png(9, 9, 8, 0, extra=chunk(b"tRNS", gray))
    yield "transparent-gray-1.png", png(9, 9, 1, 0, extra=chunk(b"tRNS", struct.pack(">H", 1)))
    yield "transparent-gray-16.png", png(9, 9, 16, 0, extra=chunk(b"tRNS", gray))
    yield "transparent-rgb.png", png(9, 9, 8, 2, extra=chunk(b"tRNS", colour))
    yield "transparent-palette.png", png(9, 9, 8, 3, extra=chunk(b"tRNS", clear))
    yield "gamma.png", png(9, 9, 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sRGB", b"\0"))
    yield "background.png", png(9, 9, 8, 6, extra=chunk(b"bKGD", colour))
    yield "significant-bits.png", png(9, 9, 8, 0, extra=chunk(b"sBIT", b"\3"))
    yield "text.png", png(9, 9, 8, 2, extra=chunk(b"tEXt", b"Title\0a picture") + chunk(b"prVt", b"private"))
    for mode in ("RGB", "L", "LA", "RGBA"):
        yield f"pillow-{mode}.png", encoded(image(mode, 61, 47), "PNG")
    yield "pillow-P.png", encoded(image("RGB", 61, 47).quantize(37), "PNG")
    yield "pillow-1.png", encoded(image("L", 61, 47).convert("1"), "PNG")
    plain = encoded(image("RGB", 61, 47), "PNG")
    for cut in (8, 20, 33, 45, 60, 500, len(plain) - 500, len(plain) - 40):
        yield f"cut-{cut}.png", plain[:cut]
    yield "no-end.png", plain[:-12]
    yield "behind-the-end.png", plain + b"more"
    yield "no-palette.png", png(9, 9, 8, 3).replace(b"PLTE", b"pLTE")
    yield "bad-header-checksum.png", with_byte(plain, 30, plain[30] ^ 1)
    yield "depth-3.png", png(9, 9, 3, 0)


def pnms():
    draw = random.Random(4)
    for width, height in [(1, 1), (5, 7), (31, 2)]:
        for maxval in (1, 3, 100, 254, 255, 256, 1000, 65534, 65535):
            for kind, channels in ((2, 1), (3, 3), (5, 1), (6, 3)):
                samples = [draw.choice([draw.randint(0, maxval), draw.randint(0, min(maxval, 300))])
                           for _ in range(width * height * channels)]
                header = f"P{kind}\n# made by a test\n{width} {height}\n{maxval}\n".encode()
                if kind < 4:
                    body = b" ".join(b"%d" % s + (b" #c\n" if i % 9 == 8 else b"") for i, s in enumerate(samples))
                else:
                    body = struct.pack(f">{len(samples)}{'B' if maxval < 256 else 'H'}", *samples)
                name = f"p{kind}-{width}x{height}-{maxval}"
                extension = "pgm" if channels == 1 else "ppm"
                yield f"{name}.{extension}", header + body
                yield f"{name}-cut.{extension}", header + body[:-1] if kind > 4 else header + body[: len(body) // 3]
    yield "above-maxval.pgm", b"P5 4 1 100\n" + bytes([50, 100, 101, 255])
    yield "text-above-maxval.pgm", b"P2 2 1 100\n50 101\n"
    yield "one-line.ppm", b"P6 1 2 255 abcdef"
    yield "comment-in-number.pgm", b"P2 2 1 255\n1#x\n2 34\n"
    yield "negative.pgm", b"P2 2 1 255\n-1 34 \n"
    yield "letters.pgm", b"P5 x 1 255\nabcdefgh"
    yield "no-maxval.pgm", b"P5 2 1 0\nabcdefgh"
    yield "large-maxval.pgm", b"P5 2 1 65536\nabcdefgh"
    yield "no-rows.pgm", b"P5 2 0 255\nabcdefgh"
    yield "long-number.pgm", b"P5 00000000002 1 255\nabcdefgh"


def write(folder, name, content, listing):
    (folder / name).write_bytes(content)
    try:
        opened = Image.open(folder / name)
        rgb = opened.convert("RGB")
        (folder / (name + ".rgb")).write_bytes(rgb.tobytes())
        if name.startswith("exif"):
            turned = ImageOps.exif_transpose(opened).convert("RGB")
            (folder / (name + ".turned")).write_bytes(turned.tobytes())
        print(name, *rgb.size, file=listing)
    except Exception:
        print(name, 0, 0, file=listing)


def main():
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    with open(folder / "list", "w") as listing:
        for source in (jpegs, pngs, pnms):
            for name, content in source():
                write(folder, name, content, listing)


if __name__ == "__main__":
    main()
