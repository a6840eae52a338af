"""One case of ddp_cases.py on one rank."""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tensor_file
from hooks import HOOKS, START_LOCAL


class Remembered:
    """PyTorch 2.15 starts to sum delayed gradients and waits for nothing, so a step could come before the sum."""

    def __init__(self):
        self.works = []
        self.all_reduce = dist.all_reduce

    def __call__(self, *tensors, **options):
        work = self.all_reduce(*tensors, **options)
        self.works.append(work)
        return work

    def __enter__(self):
        dist.all_reduce = self

    def __exit__(self, *error):
        dist.all_reduce = self.all_reduce
        for work in self.works:
            work.wait()


class Run:
    """Without a group it trains the network itself, alone."""

    def __init__(self, case, rank, inputs, group=None, device="cpu"):
        self.case = case
        self.device = device
        self.rank = rank
        self.data = tensor_file.read(f"{inputs}/{case.model.__name__}")
        self.left = {}
        self.net = case.model()
        self.net.load_state_dict({k: v for k, v in self.data.items() if k not in ("x", "y")})
        case.prepare(self.net)
        self.net.to(device)
        self.ddp = self.wrap(group) if group else self.net
        self.optimizer = self.make_optimizer(group)
        self.averager = None
        if case.averaged and group:
            self.averager = PeriodicModelAverager(period=2, warmup_steps=START_LOCAL, process_group=group)
        torch.manual_seed(100 + self.rank)

    def make_optimizer(self, group):
        # foreach=True has the bits of torch::optim::SGD in every dtype; the default loop, which lockstep::optim
        # follows, and fused=True round bfloat16 differently.
        options = {"lr": 0.05, "momentum": self.case.momentum, "weight_decay": self.case.weight_decay}
        options["foreach"] = not (self.case.zero or self.case.in_backward)
        if self.case.zero and group:
            return ZeroRedundancyOptimizer(self.net.parameters(), torch.optim.SGD, **options)
        return torch.optim.SGD(self.net.parameters(), **options)

    def wrap(self, group):
        if self.rank > 0:  # Rank 0's values must win, except for what is ignored.
            for tensor in self.net.state_dict().values():
                tensor.fill_(self.rank / 8)
        views = self.case.views
        options = dict(self.case.options)
        if self.case.delayed:
            named = dict(self.net.named_parameters())
            options["delay_all_reduce_named_params"] = [(name, named[name]) for name in self.case.delayed]
            options["param_to_hook_all_reduce"] = named[self.case.hooked]
        ddp = DistributedDataParallel(
            self.net, process_group=group, gradient_as_bucket_view=views, **options
        )
        if self.case.hook:
            ddp.register_comm_hook(*HOOKS[self.case.hook](group))
        return ddp

    def batch(self, i):
        return tuple(self.data[name][i, self.rank].to(self.device) for name in ("x", "y"))

    def backward(self, step):
        self.optimizer.zero_grad(self.case.set_to_none)
        for i in range(self.case.passes):
            last = i + 1 == self.case.passes
            with contextlib.nullcontext() if last else self.ddp.no_sync():
                batch = self.batch(step * self.case.passes + i)
                loss = self.case.loss(self.ddp, *batch, step, self.rank)
                with Remembered() if self.case.delayed else contextlib.nullcontext():
                    loss.backward()
            self.left[f"loss.{step}.{i}"] = loss.detach()

    @torch.no_grad()
    def evaluate(self, step):
        self.ddp.eval()
        for i in range(2):
            self.left[f"eval.{step}.{i}"] = self.ddp(self.batch(i)[0])
        self.ddp.train()

    def make_steps(self):
        for step in range(self.case.steps_of(self.rank)):
            self.backward(step)
            self.optimizer.step()
            if self.averager:
                self.averager.average_parameters(self.ddp.parameters())
            if self.case.evaluate:
                self.evaluate(step)

    def join(self):
        """Whether it threw is a part of what the rank leaves."""
        threw = 0
        try:
            with self.ddp.join(**self.case.join):
                self.make_steps()
        except RuntimeError as error:
            if not self.case.throws or "exhausted" not in str(error):
                raise
            threw = 1
        if self.case.throws:
            self.left["threw"] = torch.tensor([threw])

    def train(self):
        torch.set_num_threads(self.case.threads)
        if self.case.join is None:
            self.make_steps()
        else:
            self.join()
        torch.set_num_threads(1)
        return self.end()

    def end(self):
        self.left.update(self.net.state_dict())
        if "bucket_cap_mb_list" in self.case.options:
            sizes = self.ddp._get_ddp_logging_data()
            sizes = sizes.get("rebuilt_bucket_sizes") or sizes["bucket_sizes"]
            self.left["buckets"] = torch.tensor([len(sizes.split(","))])
        if isinstance(self.optimizer, ZeroRedundancyOptimizer):
            self.optimizer.consolidate_state_dict(0)
            state = self.optimizer.state_dict()["state"] if self.rank == 0 else {}
            self.left |= {f"state.{i}": entry["momentum_buffer"] for i, entry in state.items()}
        for name, parameter in self.net.named_parameters(remove_duplicate=False):
            if parameter.grad is not None:
                self.left[name + ".grad"] = parameter.grad
        return self.left
