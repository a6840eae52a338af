"""ResNet-50 on a folder of JPEGs, on one GPU: images/s, time spent waiting for data, and what the driver tells."""

import io
import json
import os
import pathlib
import random
import re

from jobs import environment, fail, in_turns, median, ours, peer, run

TITLE = "JPEGs of 224 pixels, ResNet-50, bfloat16, channels last, batch 256"
FLAGS = ["--model", "resnet50", "--batch-size", 256, "--epochs", 2]
PHOTOS, DIFFERENT, CLASSES = 25600, 1000, 10


def jpeg(seed):
    """Coarse structures with some noise."""
    from PIL import Image

    noise = random.Random(seed)
    image = Image.frombytes("RGB", (28, 28), noise.randbytes(28 * 28 * 3)).resize((224, 224), Image.BICUBIC)
    image = Image.blend(image, Image.frombytes("RGB", (224, 224), noise.randbytes(224 * 224 * 3)), 0.1)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return file.getvalue()


def folder_of(options):
    folder = options.folder / "jpegs"
    if not folder.exists():
        images = [jpeg(seed) for seed in range(DIFFERENT)]
        for part, count in (("train", PHOTOS), ("val", 512)):
            for number in range(count):
                path = folder / part / f"class{number % CLASSES}" / f"{number:06}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(images[number % DIFFERENT])
    return folder


def last_epoch(command):
    """Images/s, and the part of the time that passed waiting for data, as metrics.jsonl has them."""
    (file,) = pathlib.Path(command[command.index("--output") + 1]).glob("*/metrics.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and line["epoch"] == FLAGS[FLAGS.index("--epochs") + 1] - 1]
    seconds = [1 / line["samples_per_second"] for line in lines]
    waits = [second * line["data_wait"] for second, line in zip(seconds, lines)]
    return {"rate": len(seconds) / sum(seconds), "data_wait": sum(waits) / sum(seconds),
            "utilization": sum(line.get("gpu_utilization", 0) for line in lines) / len(lines)}


def train_ours(options, data, env):
    command = ours(options, data, "--nproc", 1, "--json", "--log-interval", 20, "--amp", "bf16",
                   "--channels-last", *FLAGS)
    return {**run(command, env), **last_epoch(command)}


def measure(options, name):
    if not os.path.exists("/dev/nvidiactl"):
        fail("row gpu needs an NVIDIA GPU, and this machine shows none; leave it out with --rows")
    data = folder_of(options)
    env = {**environment(1), "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES") or "0"}
    contenders = {"ours": lambda _: train_ours(options, data, env)}
    if options.python:
        for workers in options.gpu_workers:
            command = peer(options, data, *FLAGS, "--workers", workers, "--device", "cuda", ranks=1)
            contenders[f"peer{workers}"] = lambda _, command=command: run(command, env)
    results = in_turns(contenders, options.rounds)
    rates = {side: median(result, "rate") for side, result in results.items()}
    best = max((side for side in rates if side != "ours"), key=rates.get, default=None)
    return {"row": name, "rounds": options.rounds, "images_per_second": rates, "best": best,
            "ratio": rates["ours"] / rates[best] if best else None,
            "data_wait": {side: median(result, "data_wait") for side, result in results.items()},
            "utilization": median(results["ours"], "utilization"),
            "wall": {side: median(result, "wall") for side, result in results.items()}}


def show(options, tables):
    for table in tables:
        rates, waits, wall = table["images_per_second"], table["data_wait"], table["wall"]
        print(f"{TITLE}; one GPU, last of two epochs, medians of {table['rounds']} interleaved rounds\n")
        print(f"{'':24} {'images/s':>9} {'data wait':>10} {'wall s':>8}")
        for side in rates:
            workers = re.sub("peer", "PyTorch, workers: ", side) if side != "ours" else "lockstep"
            print(f"{workers:24} {rates[side]:9.0f} {100 * waits[side]:9.1f}% {wall[side]:8.1f}")
        ratio = f"{table['ratio']:.2f} times the best of PyTorch's; " if table["ratio"] else ""
        print(f"\n{ratio}the driver's utilisation in our run: {table['utilization']:.0f} %\n")
