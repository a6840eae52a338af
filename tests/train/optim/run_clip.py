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

try:
    import timm.utils as timm_utils
except ImportError:
    timm_utils = None

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


class Weights(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.weight = torch.nn.Parameter(value.clone())
        self.register_buffer("count", torch.tensor(0))


class RetypedV2:
    """The rule of ModelEmaV2 in timm 1.0.29, for machines without timm."""

    def __init__(self, model, decay):
        self.average, self.decay = model.weight.detach().clone(), decay

    def update(self, model):
        self.average.copy_(self.decay * self.average + (1.0 - self.decay) * model.weight.detach())

    def weight(self):
        return self.average


class RetypedV3(RetypedV2):
    """The rule of ModelEmaV3 in timm 1.0.29, with a warm-up."""

    def __init__(self, model, decay, min_decay, update_after_step, use_warmup):
        super().__init__(model, decay)
        assert use_warmup
        self.min_decay, self.update_after_step = min_decay, update_after_step

    def update(self, model, step):
        warm = max(0, step - self.update_after_step - 1)
        decay = 0.0 if warm <= 0 else max(min(1 - (1 + warm / 1.0) ** -(2 / 3), self.decay), self.min_decay)
        torch._foreach_lerp_([self.average], [model.weight.detach()], weight=1.0 - decay)


def average_of(ema):
    return ema.weight() if isinstance(ema, RetypedV2) else ema.module.weight.detach()


def averages(result):
    """timm's own classes where timm is installed, which must do what is retyped here; else the retyped ones."""
    rules = {"v2": [RetypedV2], "v3": [RetypedV3]}
    if timm_utils is not None:
        rules["v2"].append(timm_utils.ModelEmaV2)
        rules["v3"].append(timm_utils.ModelEmaV3)
    options = {"v2": {"decay": 0.99}, "v3": {"decay": 0.8, "min_decay": 0.3, "update_after_step": 2, "use_warmup": True}}
    for rule, classes in rules.items():
        torch.manual_seed(5)
        net = Weights(torch.randn(4, 3))
        emas = [ema(net, **options[rule]) for ema in classes]
        result[f"ema.{rule}.first"] = net.weight.detach().clone()
        for step in range(1, 30):
            net.weight.data.copy_(torch.randn(4, 3))
            for ema in emas:
                ema.update(net) if rule == "v2" else ema.update(net, step)
            if not torch.equal(average_of(emas[0]), average_of(emas[-1])):
                sys.exit(f"ModelEma{rule.upper()} of timm differs at step {step} from its rule in timm 1.0.29")
            result[f"ema.{rule}.weights.{step}"] = net.weight.detach().clone()
            result[f"ema.{rule}.average.{step}"] = average_of(emas[-1]).clone()


def main():
    torch.set_num_threads(1)
    result = {}
    for name in CASES:
        clip(name, result)
    averages(result)
    tensor_file.write(sys.argv[1], result)


main()
