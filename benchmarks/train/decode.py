"""What --decode fast costs in accuracy: the same training with exact and with fast decoding, several seeds."""

import os
import statistics
import subprocess

from jobs import HERE, environment, fail, ours, run

MODES = ("exact", "fast")
# At 32 pixels most crops of the photographs are decoded at half their size or less.
FLAGS = ["--model", "convnet", "--input-size", 32, "--batch-size", 32, "--opt", "adamw", "--json"]


def photo_folder(options):
    folder = options.folder / "class-photos"
    if not folder.exists():
        for part, first, count in (("train", 0, options.photos), ("val", options.photos, max(10, options.photos * 2 // 5))):
            done = subprocess.run([options.python, HERE.parent / "peers" / "class_photos.py", folder / part, str(first), str(count)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                fail(f"no photographs: {done.stderr.strip()}")
    return folder


def measure(options, name):
    if not options.python:
        fail("row decode makes its photographs with Pillow; give --python")
    data = photo_folder(options)
    env = environment(max(1, len(os.sched_getaffinity(0)) // options.ranks))
    flags = ["--nproc", options.ranks, "--epochs", options.epochs, *FLAGS]
    top1 = {mode: [run(ours(options, data, *flags, "--decode", mode, "--seed", seed), env)["eval_top1"]
                   for seed in range(options.seeds)] for mode in MODES}
    means = {mode: statistics.mean(values) for mode, values in top1.items()}
    return {"row": name, "ranks": options.ranks, "seeds": options.seeds, "epochs": options.epochs, "photos": options.photos,
            "top1": top1, "mean_top1": means, "difference": means["fast"] - means["exact"]}


def show(options, tables):
    print(f"accuracy with exact and fast decoding, a convnet at 32 pixels, {options.photos} photographs, {options.epochs} "
          f"epochs, {options.ranks} ranks, mean Acc@1 of {options.seeds} seeds\n")
    print(f"{'':24} {'exact':>9} {'fast':>9} {'difference':>11}")
    for table in tables:
        means = table["mean_top1"]
        print(f"{'Acc@1, %':24} {means['exact']:9.2f} {means['fast']:9.2f} {table['difference']:11.2f}")
    print()
