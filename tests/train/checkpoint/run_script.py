"""A network that Python scripts, trained with PyTorch's DistributedDataParallel on two ranks.

    run_script.py FOLDER train    writes FOLDER/net.pt (scripted) and FOLDER/traced.pt, trains the first
                                  over Gloo, and leaves FOLDER/python.RANK: losses, state and gradients;
                                  rank 0 also saves its state dict as FOLDER/python.pt
    run_script.py FOLDER load     what lockstep saved of its DistributedDataParallel fits the plain network
                                  and a wrapped one, and its script computes the same; FOLDER/ours.outputs
                                  has its outputs in eval mode
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))
import tensor_file  # noqa: E402

warnings.simplefilter("ignore")  # torch.jit is deprecated, and users have its files.
STEPS = 8


class Net(nn.Module):
    """Batch normalisation, dropout and a branch: what differs between training and evaluation."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.dropout = nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.ones(1))
        self.fc = nn.Linear(8 * 5 * 5, 4)

    def forward(self, x):
        x = self.dropout(self.features(x).flatten(1))
        if self.training:
            x = x * self.scale
        else:
            x = x * self.scale * 0.5
        return self.fc(x)


def make():
    torch.manual_seed(0)
    return Net()


def batch(step, rank):
    generator = torch.Generator().manual_seed(10 * step + rank)
    return torch.randn(6, 1, 12, 12, generator=generator), torch.randint(4, (6,), generator=generator)


def train(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    net = torch.jit.load(str(folder / "net.pt"))
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + rank)  # For dropout.
    left = {}
    for step in range(STEPS):
        inputs, labels = batch(step, rank)
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(inputs), labels)
        loss.backward()
        optimizer.step()
        left[f"loss.{step}"] = loss.detach()
    for name, parameter in ddp.named_parameters():
        left[name + ".grad"] = parameter.grad
    left.update(ddp.state_dict())
    ddp.eval()
    left["eval"] = ddp(batch(99, 0)[0]).detach()
    tensor_file.write(folder / f"python.{rank}", left)
    if rank == 0:
        torch.save({"model": ddp.state_dict()}, folder / "python.pt")
    dist.destroy_process_group()


def load(folder):
    state = torch.load(folder / "ours" / "last.pt", weights_only=True)["model"]
    assert all(key.startswith("module.") for key in state)
    net, script = make(), torch.jit.load(str(folder / "ours.script.pt"))
    # Beside DistributedDataParallel the wrapper whose state dict has the same names.
    nn.DataParallel(net).load_state_dict(state)
    expected = tensor_file.read(folder / "ours.outputs")["eval"]
    inputs = batch(99, 0)[0]
    net.eval()
    script.eval()
    assert torch.equal(script(inputs), expected)
    assert torch.equal(net(inputs), expected)


def main():
    folder = Path(sys.argv[1])
    if sys.argv[2] == "load":
        torch.set_num_threads(1)
        load(folder)
        return
    torch.jit.script(make()).save(str(folder / "net.pt"))
    torch.jit.trace(make(), batch(0, 0)[0]).save(str(folder / "traced.pt"))
    mp.spawn(train, (folder,), nprocs=2)


if __name__ == "__main__":
    main()
