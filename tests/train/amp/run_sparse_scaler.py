"""torch.amp.GradScaler on sparse gradients, for lockstep's to follow.

    run_sparse_scaler.py OUT    writes cases as JSON: a sparse gradient beside a dense one, whether unscale_()
                                or a fused step() raised, what they left, and the scale behind update()

Floats are hexadecimal texts, as in run_scaler.py.
"""

import json
import sys

import torch

# Indices, values, float16, fused. Indices that come twice are added in float16 alone, which may overflow.
CASES = [
    ([1, 3, 1], [8.0, 24.0, 4.0], False, False),
    ([1, 3, 1], [8.0, float("inf"), 4.0], False, False),
    ([1, 1], [3e38, 3e38], False, False),
    ([0, 2, 0], [8.0, 16.0, 2.0], True, False),
    ([0, 2, 0], [8.0, 16.0, 2.0], True, True),
    ([2, 0, 2], [6e4, 1.0, 6e4], True, True),
]


def hexes(tensor):
    return [float(value).hex() for value in tensor.tolist()]


def run(indices, values, half, fused):
    dtype = torch.float16 if half else torch.float32
    sparse = torch.ones(4, dtype=dtype, requires_grad=True)
    dense = torch.ones(2, dtype=dtype, requires_grad=True)
    optimizer = torch.optim.SGD([dense, sparse], lr=0.5, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    scaler.scale(torch.tensor(1.0))
    dense.grad = torch.full((2,), 16.0, dtype=dtype)
    given = torch.tensor(values, dtype=dtype)
    sparse.grad = torch.sparse_coo_tensor([indices], given.clone(), (4,), check_invariants=True)
    raised = False
    try:
        scaler.step(optimizer) if fused else scaler.unscale_(optimizer)
    except (RuntimeError, ValueError):
        raised = True
    case = {"indices": indices, "values": hexes(given), "half": half, "fused": fused, "raised": raised,
            "coalesced": sparse.grad.is_coalesced(), "after": hexes(sparse.grad._values()), "dense": hexes(dense.grad)}
    if fused or not raised:
        scaler.update()
        case["scale"] = float(scaler.get_scale()).hex()
    return case


def main():
    torch.set_num_threads(1)
    with open(sys.argv[1], "w") as file:
        json.dump([run(*case) for case in CASES], file)


main()
