"""torch.nn.utils' clipping and timm's averages, for a comparison bit by bit.

    run_clip.py OUT    writes gradients before and after, NAME.in.I and NAME.out.I, and NAME.total; and
                       weights and averages of each step, ema.RULE.weights.STEP and ema.RULE.average.STEP
"""

import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))
import tensor_file  # noqa: E402

SHAPES = [(7, 5), (3,), (2, 3, 4, 4), (1,)]
CASES = {"two": (1.0, 2.0), "one": (0.5, 1.0), "largest": (0.25, math.inf), "half": (3.0, 0.5),
         "least": (1e-3, -math.inf), "small": (1e9, 2.0), "mixed": (0.7, 2.0), "value": (0.3, None)}


def gradients(name):
    torch.manual_seed(11)
    types = [torch.float32, torch.float64] if name == "mixed" else [torch.float32]
    return [torch.randn(shape, dtype=types[i % len(types)]) for i, shape in enumerate(SHAPES)]


def clip(name, result):
    bound, norm_type = CASES[name]
    params = [torch.zeros_like(grad).requires_grad_() for grad in gradients(name)]
    for i, (param, grad) in enumerate(zip(params, gradients(name))):
        result[f"{name}.in.{i}"] = grad
        param.grad = grad.clone()
    unused = torch.zeros(3).requires_grad_()
    if norm_type is None:
        torch.nn.utils.clip_grad_value_(params + [unused], bound)
    else:
        result[f"{name}.total"] = torch.nn.utils.clip_grad_norm_(params + [unused], bound, norm_type)
    for i, param in enumerate(params):
        result[f"{name}.out.{i}"] = param.grad


def averages(result):
    """The arithmetic of timm's ModelEmaV2, and of ModelEmaV3 with a warm-up."""
    for rule in ("v2", "v3"):
        torch.manual_seed(5)
        average = torch.randn(4, 3)
        result[f"ema.{rule}.first"] = average.clone()
        for step in range(1, 30):
            weights = torch.randn(4, 3)
            if rule == "v2":
                average.copy_(0.99 * average + (1.0 - 0.99) * weights)
            else:
                warm = max(0, step - 2 - 1)
                decay = 0.0 if warm <= 0 else max(min(1 - (1 + warm / 1.0) ** -(2 / 3), 0.8), 0.3)
                torch._foreach_lerp_([average], [weights], weight=1.0 - decay)
            result[f"ema.{rule}.weights.{step}"] = weights
            result[f"ema.{rule}.average.{step}"] = average.clone()


def main():
    torch.set_num_threads(1)
    result = {}
    for name in CASES:
        clip(name, result)
    averages(result)
    tensor_file.write(sys.argv[1], result)


main()
