"""Images per second of `lockstep train` beside the same training in Python."""

import gzip
import os
import pathlib
import shutil
import subprocess

from jobs import environment, fail, in_turns, median, ours, peer, run

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian's.
IDX_FILES = [f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]

# Our data, its peer's, and flags of each side.
ROWS = {
    "fashion-mnist": {"title": "Fashion-MNIST, convnet", "data": "idx", "goal": 1.5,
                      "flags": ["--model", "convnet", "--epochs", 1, "--batch-size", 64]},
    "folder": {"title": "JPEGs, tiny network", "data": "photos", "goal": 1.5,
               "flags": ["--model", "toy", "--epochs", 2, "--batch-size", 32]},
    "resnet18": {"title": "JPEGs, ResNet-18", "data": "photos", "goal": None,
                 "flags": ["--model", "resnet18", "--epochs", 1, "--batch-size", 16], "steps": 4},
}


def idx_folder(options):
    """The four files, unpacked where torchvision looks for them; ours reads the same."""
    raw = options.folder / "fashion" / "FashionMNIST" / "raw"
    if not raw.exists():
        raw.mkdir(parents=True)
        for name in IDX_FILES:
            plain, packed = options.data / name, options.data / (name + ".gz")
            if not plain.exists() and not packed.exists():
                fail(f"'{options.data}' has no {name}, expected Fashion-MNIST's files; "
                     "as root: apt-get install dataset-fashion-mnist, or give --data")
            with plain.open("rb") if plain.exists() else gzip.open(packed) as source, open(raw / name, "wb") as copy:
                shutil.copyfileobj(source, copy)
    return raw


def photo_folder(options):
    folder = options.folder / "photos"
    if not folder.exists():
        for part, count in (("train", options.photos), ("val", max(10, options.photos // 10))):
            done = subprocess.run([options.bin / "benchmarks" / "loader_job", "make-photos", folder / part, str(count)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                fail(f"no photographs: {done.stderr.strip()}")
    return folder


def contenders_of(options, row):
    idx = row["data"] == "idx"
    data = idx_folder(options) if idx else photo_folder(options)
    env = environment(max(1, len(os.sched_getaffinity(0)) // options.ranks))
    few = row.get("steps")
    our_flags = ["--nproc", options.ranks, "--json", *row["flags"], *(["--fast-dev-run", few] if few else [])]
    contenders = {"ours": lambda _: run(ours(options, data, *our_flags), env)}
    if options.python:
        for workers in options.workers:
            command = peer(options, data.parent.parent if idx else data, *row["flags"], "--workers", workers,
                           *(["--steps", few] if few else []))
            contenders[f"peer{workers}"] = lambda _, command=command: run(command, env)
    return contenders


def require_same(name, results):
    """Sides that train on the same batches come to the same loss; augmented ones draw other numbers."""
    if name == "fashion-mnist":
        losses = {side: result[-1]["eval_loss"] for side, result in results.items()}
        if any(abs(loss - losses["ours"]) > 0.05 * losses["ours"] for loss in losses.values()):
            fail(f"the validation losses differ: {losses}; expected the same training, so times mean nothing")


def measure(options, name):
    row = ROWS[name]
    results = in_turns(contenders_of(options, row), options.rounds)
    require_same(name, results)
    rates = {side: median(result, "samples_per_second") for side, result in results.items()}
    best = max((side for side in rates if side != "ours"), key=rates.get, default=None)
    table = {"row": name, "rounds": options.rounds, "ranks": options.ranks, "goal": row["goal"],
             "images_per_second": rates, "ratio": rates["ours"] / rates[best] if best else None, "best": best,
             "rounds_images_per_second": {side: [r["samples_per_second"] for r in result] for side, result in results.items()},
             "data_wait": median(results["ours"], "data_wait"), "communication": median(results["ours"], "communication")}
    for key in ("wall", "user", "sys"):
        table[key] = {side: median(result, key) for side, result in results.items()}
    return table


def show(options, tables):
    print(f"training with {options.ranks} ranks, images/s, medians of {options.rounds} interleaved rounds, "
          f"{len(os.sched_getaffinity(0))} cores\n")
    print(f"{'':24} {'lockstep':>9} {'PyTorch':>9} {'workers':>8} {'ratio':>6} {'goal':>5}   {'wall s: ours, PyTorch':>22}")
    for table in tables:
        best, rates, wall = table["best"], table["images_per_second"], table["wall"]
        theirs = [f"{rates[best]:.1f}", best[len("peer"):], f"{table['ratio']:.2f}", f"{wall[best]:.1f}"] if best else ["-"] * 4
        print(f"{ROWS[table['row']]['title']:24} {rates['ours']:9.1f} {theirs[0]:>9} {theirs[1]:>8} {theirs[2]:>6} "
              f"{table['goal'] or '-':>5}   {wall['ours']:11.1f}, {theirs[3]:>9}")
    print("\nPyTorch: DDP over Gloo, torchvision's data sets, started by torchrun; the best of "
          f"{', '.join(map(str, options.workers))} workers.\n"
          "Images/s are those of the training steps; wall is the whole command, with start and validation.\n")
