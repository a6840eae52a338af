"""scripts/wandb_import.py with a run that lockstep logged; nothing leaves the machine.

    check_wandb.py RUN FOLDER    imports RUN offline into FOLDER and looks at what wandb would send
"""

import json
import os
import pathlib
import subprocess
import sys

from wandb.proto import wandb_internal_pb2

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "wandb_import.py"
BLOCK = 32768  # wandb's file is a leveldb log behind a header of 7 bytes.
CONFIG = {"learning_rate": 0.2, "epochs": 3, "batch_size": 64, "momentum": 0.9, "weight_decay": 1e-4,
          "architecture": "resnet50"}


def records(data):
    payload = b""
    position = 7
    while position + 7 <= len(data):
        left = BLOCK - position % BLOCK
        if left < 7:
            position += left
            continue
        length = int.from_bytes(data[position + 4:position + 6], "little")
        kind = data[position + 6]  # 1: whole; 2, 3, 4: first, middle and last part.
        payload += data[position + 7:position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(payload)
            payload = b""


def import_run(run, folder):
    # A program's own; what `lockstep train` writes is in system/test_wandb_import.py.
    (run / "config.json").write_text(json.dumps(CONFIG | {"learning_rate": 0.1}))
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"}
    words = [sys.executable, SCRIPT, run, "--project", "imagenet", "--entity", "vision", "learning_rate=0.2"]
    subprocess.run(words, env=environment, check=True)
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    return list(records(file.read_bytes()))


def main():
    run, folder = map(pathlib.Path, sys.argv[1:])
    sent = import_run(run, folder)
    (about,) = [record.run for record in sent if record.WhichOneof("record_type") == "run"]
    assert (about.project, about.entity, about.display_name) == ("imagenet", "vision", run.name), about
    config = {entry.key: json.loads(entry.value_json) for entry in about.config.update}
    assert CONFIG.items() <= config.items(), config
    history = {}
    for record in sent:
        if record.WhichOneof("record_type") == "history":
            for item in record.history.item:
                name = item.key or "/".join(item.nested_key)
                history[record.history.step.num, name] = json.loads(item.value_json)
    for step in range(20):
        assert abs(history[step, "Loss/train"] - 1 / (step + 3)) < 1e-7, (step, history)
    assert history[1 << 40, "lr"] == 0


if __name__ == "__main__":
    main()
