"""The networks of the parity tests; models.h has the same ones under the same names."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def mlp():
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def broad():
    """Its hidden layers' gradients are large enough to be allocated in their buckets."""
    return nn.Sequential(
        nn.Linear(20, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128),
        nn.ReLU(), nn.Linear(128, 10)
    )


def wide():
    """Large enough for two buckets of the default sizes."""
    return nn.Sequential(
        nn.Linear(20, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 10)
    )


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10)
    )


def broad_convnet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 48, 3, 1, 1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(48 * 7 * 7, 10)
    )


def resnet18():
    import torchvision  # Slow to import, and only this one needs it.

    return torchvision.models.resnet18(num_classes=10)


class Branches(nn.Module):
    """Goes through one of its branches, or none; the second output is not meant for a loss."""

    def __init__(self, width=16):
        super().__init__()
        self.trunk = nn.Linear(20, width)
        self.left = nn.Linear(width, width)
        self.right = nn.Linear(width, width)
        self.rare = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)
        self.aside = nn.Linear(width, 3)

    def forward(self, x, branch):
        hidden = F.relu(self.trunk(x))
        if branch:
            hidden = getattr(self, branch)(hidden)
        return self.head(hidden), self.aside(hidden)


class Shared(nn.Module):
    """One layer under two names, and one weight in two layers."""

    def __init__(self, width=20):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.again = self.first
        self.encoder = nn.Linear(width, width // 2)
        self.weight = self.encoder.weight
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        hidden = F.relu(self.again(F.relu(self.first(x))))
        return self.head(F.linear(self.encoder(hidden), self.weight.t()))


class Fixed(nn.Module):
    """Uses one layer twice and another one never."""

    def __init__(self, width=20):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.never = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(F.relu(self.first(F.relu(self.first(x)))))


class Mixed(nn.Module):
    """Layers of three dtypes."""

    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Linear(20, width)
        self.exact = nn.Linear(width, width).double()
        self.rough = nn.Linear(width, width).bfloat16()
        self.second = nn.Linear(width, width)
        self.exact_too = nn.Linear(width, width).double()
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        hidden = F.relu(self.exact(F.relu(self.first(x)).double()))
        hidden = F.relu(self.rough(hidden.bfloat16()))
        hidden = F.relu(self.exact_too(self.second(hidden.float()).double()))
        return self.head(hidden.float())


class Words(nn.Module):
    """An embedding with sparse gradients."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12, sparse=True)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


class Recomputed(nn.Module):
    """Computes its block again in backward instead of keeping what it made: a backward inside another one."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(20, 128)
        self.block = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128))
        self.head = nn.Linear(128, 10)

    def again(self, hidden):
        return checkpoint(self.block, hidden, use_reentrant=True)

    def forward(self, x):
        return self.head(self.again(F.relu(self.trunk(x))))


class RecomputedTwice(Recomputed):
    """Its block is in two checkpoints, so its parameters get two gradients in a step."""

    def forward(self, x):
        return self.head(self.again(self.again(F.relu(self.trunk(x)))))


def broad_branches():
    return Branches(128)


def broad_shared():
    return Shared(128)


def broad_fixed():
    return Fixed(128)


def broad_mixed():
    return Mixed(128)


# What a network takes, without the batch.
SHAPES = {
    mlp: (20,),
    wide: (20,),
    convnet: (1, 28, 28),
    resnet18: (3, 32, 32),
    Branches: (20,),
    Shared: (20,),
    Fixed: (20,),
    Mixed: (20,),
    Words: (6,),
    broad: (20,),
    broad_convnet: (1, 28, 28),
    broad_branches: (20,),
    broad_shared: (128,),
    broad_fixed: (128,),
    broad_mixed: (20,),
    Recomputed: (20,),
    RecomputedTwice: (20,),
}
DRAWS = 12  # Batches for each of RANKS ranks.
RANKS = 4
BATCH = 4


def generate(model):
    """Initial state, inputs "x" and labels "y" of a network: the same for everybody who asks."""
    torch.manual_seed(7)
    state = {name: tensor for name, tensor in model().state_dict().items()}
    shape = (DRAWS, RANKS, BATCH, *SHAPES[model])
    state["x"] = torch.randint(50, shape) if model is Words else torch.randn(shape)
    state["y"] = torch.randint(10, (DRAWS, RANKS, BATCH))
    return state
