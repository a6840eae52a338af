"""Named tensors in one file: for each a line "name dtype 2,3" and then its bytes, little-endian."""

import torch

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write(path, tensors):
    with open(path, "wb") as file:
        for name, tensor in tensors.items():
            tensor = tensor.detach().cpu().to_dense().contiguous()
            sizes = ",".join(map(str, tensor.shape))
            file.write(f"{name} {NAMES[tensor.dtype]} {sizes}\n".encode())
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


def read(path):
    tensors = {}
    with open(path, "rb") as file:
        while line := file.readline().decode():
            name, dtype, sizes = line.rstrip("\n").split(" ")
            empty = torch.empty([int(n) for n in sizes.split(",") if n], dtype=DTYPES[dtype])
            data = bytearray(file.read(empty.nbytes))
            tensors[name] = torch.frombuffer(data, dtype=empty.dtype).view(empty.shape)
    return tensors
