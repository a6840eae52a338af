"""Writes what a network of Python has and does, for a comparison bit by bit.

    dump_models.py FOLDER NAME...

FOLDER/NAME has a line per tensor, with its type, shape and the CRC-32 of its bytes: parameters and
buffers of the network made after manual_seed(0), its output for a seeded input in training mode, the
buffers after that, the gradients of the sum of the output's squares, and its output in eval mode.
"""

import sys
import zlib
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


class ToyModel(nn.Module):
    """That of PyTorch's tutorial."""

    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def torchvisions(name, **options):
    import torchvision  # Takes seconds.

    return getattr(torchvision.models, name)(**options)


# A function that makes the network, and the shape of its input.
MODELS = {
    "mlp": (mlp, (8, 784)),
    "convnet": (convnet, (8, 1, 28, 28)),
    "toy": (ToyModel, (20, 10)),
    "resnet18_from_zero": (
        lambda: torchvisions("resnet18", num_classes=10, zero_init_residual=True), (2, 3, 64, 64)
    ),
    "resnet50_from_zero": (
        lambda: torchvisions("resnet50", zero_init_residual=True), (2, 3, 64, 64)
    ),
    "mobilenet_v2_of_7": (lambda: torchvisions("mobilenet_v2", num_classes=7), (2, 3, 64, 64)),
    "vgg11_bn_of_7": (lambda: torchvisions("vgg11_bn", num_classes=7), (2, 3, 64, 64)),
    **{
        name: (lambda name=name: torchvisions(name), (2, 3, 64, 64))
        for name in ["resnet18", "resnet34", "resnet101", "resnet152", "mobilenet_v2",
                     "vgg13_bn", "vgg16_bn", "vgg19_bn"]
    },
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
    inputs = torch.randn(shape)
    output = net(inputs)
    yield "output", output.detach()
    for key, value in net.named_buffers():
        yield f"buffer {key} after forward", value
    output.square().sum().backward()
    for key, value in net.named_parameters():
        yield f"gradient {key}", value.grad
    net.eval()
    yield "output in eval mode", net(inputs).detach()


def dump(folder, name):
    with open(folder / name, "w") as file:
        for label, tensor in tensors(name):
            kind = "f" if tensor.is_floating_point() else "i"
            crc = zlib.crc32(tensor.contiguous().numpy())
            file.write(f"{label}: {kind}{tensor.element_size()} {list(tensor.shape)} {crc:08x}\n")


def main():
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        dump(Path(sys.argv[1]), name)


if __name__ == "__main__":
    main()
