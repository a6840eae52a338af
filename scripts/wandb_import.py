#!/usr/bin/env python3
"""Brings a run that lockstep logged to Weights & Biases.

    wandb_import.py RUN --project P [--entity E] [--name N] [KEY=VALUE ...]

RUN is the folder of a run. Every scalar of its event files becomes a metric of the same name, at the
same step. The configuration is RUN/config.toml, as `lockstep train` writes it, under wandb's usual
names: learning_rate, epochs, batch_size, momentum, weight_decay, architecture and whatever else is
there, with _ for -. RUN/config.json, from programs that write one, and KEY=VALUE add to it or override
it, e.g.

    wandb_import.py runs/1 --project imagenet --entity vision learning_rate=0.1 architecture=resnet50

Where the rate was left to `lockstep train` (lr = 0), learning_rate is the one that the run's checkpoint
says it began with, if this Python has torch, else the highest that was logged. batch_size is that of a
rank; it is left out where global_batch_size was given instead.

With WANDB_MODE=offline nothing is sent: `wandb sync` sends it later. Needs the packages wandb and
tensorboard.
"""

import argparse
import json
import pathlib
import sys

CONFIG = ("learning_rate", "epochs", "batch_size", "momentum", "weight_decay", "architecture")
NAMES = {"lr": "learning_rate", "model": "architecture"}  # Flags by their names in wandb.


def read_flags():
    parser = argparse.ArgumentParser(description="Brings a run that lockstep logged to Weights & Biases.")
    parser.add_argument("run", type=pathlib.Path, help="folder with event files")
    parser.add_argument("--project", required=True)
    parser.add_argument("--entity", help="user or team; wandb's default if not given")
    parser.add_argument("--name", help="of the run in wandb; the folder's if not given")
    parser.add_argument("config", nargs="*", metavar="KEY=VALUE", help=f"such as {', '.join(CONFIG)}")
    return parser.parse_intermixed_args()


def parse_value(text):
    """A JSON value where it is one, else the text itself: 0.1 is a number, resnet50 is not."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_flat(text):
    """Lines KEY = VALUE, as `lockstep train` writes them, for a Python without tomllib."""
    options = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        value = value.strip()
        if equals and not line.lstrip().startswith(("#", "[")):
            quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
            options[key.strip()] = value[1:-1] if quoted else parse_value(value)
    return options


def read_toml(file):
    text = file.read_text(encoding="utf-8")
    try:
        import tomllib  # Python 3.11.

        return tomllib.loads(text)
    except (ImportError, ValueError):  # ValueError: a path with a backslash, say.
        return read_flat(text)


def highest_lr(run):
    """The highest learning rate that was logged; None if there is none."""
    file = run / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return max((json.loads(line).get("lr") or 0 for line in lines), default=0) or None


def initial_lr(run):
    """The rate that a run began with, of which its log has only what the schedule made of it."""
    try:
        import torch

        saved = torch.load(run / "checkpoints/last.pt", map_location="cpu", weights_only=True)
        group = saved["optimizer"]["param_groups"][0]
        return group.get("initial_lr", group["lr"])
    except Exception:  # No torch, no checkpoint, or one of another kind.
        return highest_lr(run)


def read_train_config(run):
    """What `lockstep train` was told, in wandb's names; empty for runs of other programs."""
    file = run / "config.toml"
    options = read_toml(file) if file.exists() else {}
    config = {NAMES.get(name, name.replace("-", "_")): value for name, value in options.items()}
    if config.get("learning_rate") == 0:
        config["learning_rate"] = initial_lr(run)
    if config.get("global_batch_size", 0) > 0:
        config.pop("batch_size", None)
    return config


def read_config(run, words):
    config = read_train_config(run)
    file = run / "config.json"
    config.update(json.loads(file.read_text(encoding="utf-8")) if file.exists() else {})
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            sys.exit(f"wandb_import.py: '{word}' is not KEY=VALUE")
        config[key] = parse_value(value)
    return config


def read_scalars(run):
    """{step: {tag: value}}, steps rising; what a later session purged is left out."""
    from tensorboard.backend.event_processing import event_accumulator

    events = event_accumulator.EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    steps = {}
    for tag in events.Tags()["scalars"]:
        for scalar in events.Scalars(tag):
            steps.setdefault(scalar.step, {})[tag] = scalar.value
    return dict(sorted(steps.items()))


def main():
    flags = read_flags()
    if not any(flags.run.glob("*tfevents*")):
        sys.exit(f"wandb_import.py: no event files in '{flags.run}', expected the folder of a run")
    config = read_config(flags.run, flags.config)
    steps = read_scalars(flags.run)

    import wandb

    with wandb.init(project=flags.project, entity=flags.entity, name=flags.name or flags.run.resolve().name,
                    config=config) as run:
        for step, scalars in steps.items():
            run.log(scalars, step=step)
    print(f"{len(steps)} steps of '{flags.run}' are in project '{flags.project}'")


if __name__ == "__main__":
    main()
