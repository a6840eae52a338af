"""Training that starts in Python and goes on in lockstep, and the reverse, through checkpoint files.

    run_checkpoint.py save FOLDER      trains 25 steps and saves FOLDER/python_NAME.pt; goes on to 75 and
                                       writes the weights to FOLDER/NAME.weights
    run_checkpoint.py resume FOLDER    reads FOLDER/ours_NAME/last.pt (lockstep's, after 25 steps), trains
                                       to 75, and writes FOLDER/NAME.resumed
    run_checkpoint.py kinds FOLDER     writes files of each kind that users have
    run_checkpoint.py tensors FOLDER   writes tensors of rare kinds, and the bytes of their elements
    run_checkpoint.py legacy FOLDER    writes files of formats that are converted first
    run_checkpoint.py safetensors FOLDER    compares FOLDER/model.safetensors with the network's weights and
                                       tensors of each type, and writes them to FOLDER/theirs.safetensors

The gradients of a step are drawn with the step as the seed, so both sides have the same.
"""

import argparse
import pickle
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))
import tensor_file  # noqa: E402

HALF, END = 25, 75


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))


def optimizer_of(name, net):
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    return torch.optim.AdamW(net.parameters(), lr=0.01)


def train(net, optimizer, first, last):
    net.train()
    for step in range(first, last):
        torch.manual_seed(1000 + step)
        inputs = torch.randn(8, 5)
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()


def save(folder):
    for name in ("sgd", "adamw"):
        net = network()
        optimizer = optimizer_of(name, net)
        train(net, optimizer, 0, HALF)
        checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": HALF,
                      "args": argparse.Namespace(lr=0.1, model="toy"), "lr_scheduler": {"last_epoch": 2}}
        torch.save(checkpoint, folder / f"python_{name}.pt")
        train(net, optimizer, HALF, END)
        tensor_file.write(folder / f"{name}.weights", net.state_dict())


def resume(folder):
    for name in ("sgd", "adamw"):
        net = network()
        optimizer = optimizer_of(name, net)
        path = folder / f"ours_{name}" / "last.pt"
        checkpoint = torch.load(path, weights_only=True)
        mapped = torch.load(path, weights_only=True, mmap=True)
        for key, tensor in checkpoint["model"].items():
            assert torch.equal(tensor, mapped["model"][key]), key
        net.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        assert checkpoint["epoch"] == HALF and checkpoint["args"] == {"lr": 0.1}
        assert checkpoint["class_names"] == ["cat", "dög"] and checkpoint["mean"] == [0.5]
        assert checkpoint["sampler"] == {"seed": 3, "epoch": 1, "consumed": 40}
        torch.set_rng_state(checkpoint["rng"]["cpu"][0])
        drawn = torch.randn(3)
        torch.manual_seed(11)
        assert torch.equal(drawn, torch.randn(3))
        train(net, optimizer, HALF, END)
        tensor_file.write(folder / f"{name}.resumed", net.state_dict())


def kinds(folder):
    net = network()
    state = net.state_dict()
    torch.save(state, folder / "plain.pt")
    torch.save({f"module.{key}": value for key, value in state.items()}, folder / "ddp.pt")
    torch.save({"arch": "toy", "state_dict": state, "state_dict_ema": {k: v + 1 for k, v in state.items()},
                "epoch": 4, "args": argparse.Namespace(model="toy"), "metric": 0.5, "version": 2}, folder / "timm.pt")
    torch.save({"model": "toy", "state_dict": state}, folder / "named.pt")
    torch.save({"epoch": 4, "model_state_dict": state, "optimizer_state_dict": optimizer_of("sgd", net).state_dict(),
                "loss": 0.5}, folder / "tutorial.pt")
    torch.save({"model": state, "optimizer": [optimizer_of("sgd", net).state_dict()]}, folder / "optimizers.pt")
    compiled = torch.compile(net).state_dict()  # Nothing is compiled before it is called.
    assert "_orig_mod.0.weight" in compiled
    torch.save(compiled, folder / "compiled.pt")
    torch.save({f"module.{key}": value for key, value in compiled.items()}, folder / "compiled_ddp.pt")
    torch.save({key.replace("_orig_mod.", "_orig_mod.module."): value for key, value in compiled.items()},
               folder / "ddp_compiled.pt")
    part = network()
    part[1] = torch.compile(part[1])
    assert "1._orig_mod.weight" in part.state_dict()
    torch.save(part.state_dict(), folder / "part.pt")
    torch.save({"weights": 3}, folder / "other.pt")
    torch.save(state, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    warnings.simplefilter("ignore")  # torch.jit is deprecated, and users have its files.
    torch.jit.script(net).save(str(folder / "script.pt"))


def tensors(folder):
    numbers = torch.complex(torch.arange(4.0), torch.arange(4.0, 8.0))
    state = {"conj": numbers.conj(), "neg": numbers.clone().conj().imag, "both": torch._neg_view(numbers.clone().conj()),
             "attributes": torch.arange(3.0), "parameter": torch.nn.Parameter(torch.arange(3.0)),
             "buffer": torch.nn.Buffer(torch.arange(3.0))}
    state["attributes"].unit = "m"
    state["parameter"].unit = "m"
    for name in ("complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
                 "float4_e2m1fn_x2"):
        state[name] = torch.arange(8, dtype=torch.uint8).view(getattr(torch, name))
    torch.save(state, folder / "tensors.pt")
    torch.save(state, folder / "protocol3.pt", pickle_protocol=3)
    warnings.simplefilter("ignore")  # About the protocol and quantized tensors.
    for name in ("tensors.pt", "protocol3.pt"):
        assert torch.load(folder / name, weights_only=True).keys() == state.keys()
    torch.save({name: tensor.detach().resolve_conj().resolve_neg().contiguous().view(torch.uint8)
                for name, tensor in state.items()}, folder / "bytes.pt")
    others = {"sparse": torch.eye(2).to_sparse(), "csr": torch.eye(2).to_sparse_csr(),
              "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
              "channels": torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.quint8),
              "meta": torch.ones(2, device="meta")}
    for name, tensor in others.items():
        torch.save({"0.bias": torch.ones(2), "0.weight": tensor}, folder / f"{name}.pt")
        torch.load(folder / f"{name}.pt", weights_only=True)


def legacy(folder):
    state = network().state_dict()
    checkpoint = {"model": state, "args": argparse.Namespace(lr=0.1)}
    old = {"_use_new_zipfile_serialization": False}
    torch.save(state, folder / "legacy.pt", **old)
    torch.save(state, folder / "it's.pt", **old)
    torch.save(checkpoint, folder / "namespace.pt", **old)
    torch.save(checkpoint, folder / "protocol4.pt", pickle_protocol=4, **old)
    with open(folder / "pickle.pt", "wb") as file:
        pickle.dump(checkpoint, file)


def typed_tensors():
    """One of each type that both know."""
    types = ("float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64 "
             "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split()
    return {name: torch.arange(16, dtype=torch.uint8).remainder(2).view(getattr(torch, name)) for name in types}


def safetensors(folder):
    from safetensors.torch import load_file, save_file

    read = load_file(folder / "model.safetensors")
    for name, tensor in network().state_dict().items():
        assert torch.equal(read[name], tensor), name
    for name, tensor in typed_tensors().items():
        assert read[name].dtype == tensor.dtype, name
        assert torch.equal(read[name].view(torch.uint8), tensor.view(torch.uint8)), name
    theirs = {**network().state_dict(), **typed_tensors()}
    save_file(theirs, folder / "theirs.safetensors", metadata={"format": "pt"})


def main():
    torch.set_num_threads(1)
    commands = {"save": save, "resume": resume, "kinds": kinds, "tensors": tensors, "legacy": legacy, "safetensors": safetensors}
    commands[sys.argv[1]](Path(sys.argv[2]))


main()
