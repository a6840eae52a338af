#!/usr/bin/env python3
"""Brings a run that lockstep logged to Weights & Biases.

    wandb_import.py RUN --project P [--entity E] [--name N] [KEY=VALUE ...]

RUN is the folder of a run. Every scalar of its event files becomes a metric of the same name, at the
same step. The configuration (learning_rate, epochs, batch_size, momentum, weight_decay, architecture
and whatever else is there) is RUN/config.json; KEY=VALUE adds to it or overrides it, e.g.

    wandb_import.py runs/1 --project imagenet --entity vision learning_rate=0.1 architecture=resnet50

With WANDB_MODE=offline nothing is sent: `wandb sync` sends it later. Needs the packages wandb and
tensorboard.
"""

import argparse
import json
import pathlib
import sys

CONFIG = ("learning_rate", "epochs", "batch_size", "momentum", "weight_decay", "architecture")


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


def read_config(run, words):
    file = run / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
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


main()
