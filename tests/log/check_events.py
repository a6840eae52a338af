"""The real TensorBoard beside lockstep's event files.

    check_events.py read FOLDER FILE   what tensorboard reads of tensorboard_test.cpp's file is what was
                                       written, and Python's SummaryWriter has the same bytes; it
                                       writes them into FOLDER.python
    check_events.py purged FOLDER      of two files, the second purged the first from step 6 on
"""

import math
import sys
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.compat.proto import event_pb2

VALUES = np.array([(i - 400) * 0.01 * (i % 7) for i in range(1000)])


def load(folder):
    accumulator = event_accumulator.EventAccumulator(
        folder, size_guidance={kind: 0 for kind in ("scalars", "histograms", "tensors")})
    accumulator.Reload()
    return accumulator


def write(folder):
    from torch.utils.tensorboard import SummaryWriter  # Imports torch: seconds.

    with SummaryWriter(folder) as writer:
        for step in range(20):
            writer.add_scalar("Loss/train", 1.0 / (step + 3), step)
        writer.add_scalar("lr", 0, 1 << 40)
        writer.add_scalar("Loss/val", math.nan, 1)
        writer.add_text("note", "# café", 3)
        writer.add_text("broken \ufffd", "\ufffd", 3)
        writer.add_histogram("weights", VALUES, 4)
        writer.add_histogram("zeros", np.zeros(5), 5)
    (path,) = Path(folder).iterdir()
    return path


def records(path):
    return list(event_file_loader.RawEventFileLoader(str(path)).Load())


def same_histogram(ours, pythons):
    for event in (ours, pythons):  # Numpy sums in another order.
        histo = event.summary.value[0].histo
        event.summary.value[0].histo.sum = round(histo.sum, 6)
        event.summary.value[0].histo.sum_squares = round(histo.sum_squares, 6)
    return ours == pythons


def check_bytes(path, pythons):
    """Each record is what protobuf itself writes for the same event."""
    ours = records(path)
    theirs = records(pythons)
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    for i, (raw, other) in enumerate(zip(ours, theirs)):
        event = event_pb2.Event.FromString(raw)
        assert event.SerializeToString(deterministic=True) == raw, (i, event)
        expected = event_pb2.Event.FromString(other)
        if i == 0:
            assert event.file_version == expected.file_version
            assert event.source_metadata.writer == "lockstep"
            continue
        expected.wall_time = event.wall_time
        value = event.summary.value[0]
        if value.HasField("histo"):
            assert same_histogram(event, expected), (event, expected)
        else:
            assert event.SerializeToString() == expected.SerializeToString(), (event, expected)


def check_read(folder, path):
    run = load(folder)
    scalars = run.Scalars("Loss/train")
    assert [s.step for s in scalars] == list(range(20))
    assert [s.value for s in scalars] == [float(np.float32(1.0 / (step + 3))) for step in range(20)]
    assert all(abs(s.wall_time - Path(path).stat().st_mtime) < 60 for s in scalars)
    assert run.Scalars("lr")[0].step == 1 << 40 and run.Scalars("lr")[0].value == 0
    assert math.isnan(run.Scalars("Loss/val")[0].value)
    (histogram,) = run.Histograms("weights")
    assert histogram.step == 4 and histogram.histogram_value.num == 1000
    assert sum(histogram.histogram_value.bucket) == 1000
    (text,) = run.Tensors("note/text_summary")
    assert text.tensor_proto.string_val[0].decode() == "# café"
    assert run.SummaryMetadata("note/text_summary").plugin_data.plugin_name == "text"
    check_bytes(path, write(folder + ".python"))


def check_purged(folder):
    scalars = load(folder).Scalars("Loss/train")
    assert [(s.step, s.value) for s in scalars] == [(i, i) for i in range(6)] + [(6, 66)], scalars


def main():
    command, folder, *rest = sys.argv[1:]
    if command == "read":
        check_read(folder, *rest)
    else:
        check_purged(folder)


main()
