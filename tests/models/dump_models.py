"""Writes what a network of Python has and does, for a comparison bit by bit.

    dump_models.py FOLDER NAME...

FOLDER/NAME.labels has a line per tensor and FOLDER/NAME.bin their bytes in that order: parameters
and buffers of the network made after manual_seed(0), its output for a seeded input in training
mode, the buffers after that, and the gradients of the sum of the output's squares.
"""

import sys
from pathlib import Path

import torch
from torch import nn


def mlp():
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(),
        nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )


def resnet(name, **options):
    import torchvision  # Takes seconds.

    return getattr(torchvision.models, name)(**options)


# A function that makes the network, and the shape of its input.
MODELS = {
    "mlp": (mlp, (8, 784)),
    "convnet": (convnet, (8, 1, 28, 28)),
    "resnet18": (lambda: resnet("resnet18"), (2, 3, 64, 64)),
    "resnet18_from_zero": (
        lambda: resnet("resnet18", num_classes=10, zero_init_residual=True), (2, 3, 64, 64)
    ),
    "resnet34": (lambda: resnet("resnet34"), (2, 3, 64, 64)),
    "resnet50_from_zero": (lambda: resnet("resnet50", zero_init_residual=True), (2, 3, 64, 64)),
}


def tensors(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    net = make()
    for key, value in net.named_parameters():
        yield f"parameter {key}", value.detach()
    for key, value in net.named_buffers():
        yield f"buffer {key}", value
    torch.manual_seed(1)
    output = net(torch.randn(shape))
    yield "output", output.detach()
    for key, value in net.named_buffers():
        yield f"buffer {key} after forward", value
    output.square().sum().backward()
    for key, value in net.named_parameters():
        yield f"gradient {key}", value.grad


def dump(folder, name):
    with open(folder / f"{name}.labels", "w") as labels, open(folder / f"{name}.bin", "wb") as content:
        for label, tensor in tensors(name):
            kind = "f" if tensor.is_floating_point() else "i"
            labels.write(f"{label}: {kind}{tensor.element_size()} {list(tensor.shape)}\n")
            content.write(tensor.contiguous().numpy().tobytes())


def main():
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        dump(Path(sys.argv[1]), name)


if __name__ == "__main__":
    main()
