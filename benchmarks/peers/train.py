#!/usr/bin/env python3
"""What `lockstep train` does, as a user of PyTorch writes it: `lockstep bench train` starts it with torchrun.

    torchrun --nproc-per-node 2 train.py DATA [--model NAME] [--epochs N] [--workers N] ...

DATA has FashionMNIST/raw as torchvision wants it, or train/ and val/ with a folder for each class. Rank 0 prints
`step N` for each step, `resumed at step N` where a checkpoint was read, and one JSON object at the end.
"""

import argparse
import itertools
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models
from torchvision import transforms as T


def convnet(classes, _):
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(1, 16), *stage(16, 32), nn.Flatten(), nn.Linear(32 * 7 * 7, classes))


def toy(classes, features):
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 10), nn.ReLU(), nn.Linear(10, classes))


def resnet18(classes, _):
    return models.resnet18(num_classes=classes)


def resnet50(classes, _):
    return models.resnet50(num_classes=classes)


def data_sets(folder):
    if os.path.isdir(f"{folder}/FashionMNIST"):
        return (datasets.FashionMNIST(folder, train=True, transform=T.ToTensor()),
                datasets.FashionMNIST(folder, train=False, transform=T.ToTensor()))
    normalize = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    train = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), normalize])
    val = T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), normalize])
    return datasets.ImageFolder(f"{folder}/train", train), datasets.ImageFolder(f"{folder}/val", val)


class Scores:
    """Sums of loss, right answers, right ones among five, and samples."""

    def __init__(self, device):
        self.sums = torch.zeros(4, dtype=torch.double, device=device)

    @torch.no_grad()
    def add(self, scores, labels, loss):
        right = scores.topk(min(5, scores.shape[1]), 1).indices.eq(labels[:, None])
        self.sums += torch.stack([loss.double() * len(labels), right[:, 0].sum(), right.sum(), loss.new_full((), len(labels))])

    def over_all_ranks(self):
        total = self.sums.clone()
        dist.all_reduce(total)
        loss, top1, top5, samples = total.tolist()
        return {"loss": loss / samples, "top1": 100 * top1 / samples, "top5": 100 * top5 / samples}


class Training:
    def __init__(self, options):
        self.options = options
        self.rank, world = dist.get_rank(), dist.get_world_size()
        train, val = data_sets(options.data)
        self.sampler = DistributedSampler(train, shuffle=True, seed=options.seed, drop_last=True)
        self.device = torch.device(options.device)
        workers = {"num_workers": options.workers, "persistent_workers": options.workers > 0,
                   "pin_memory": self.device.type == "cuda"}
        self.loader = DataLoader(train, options.batch_size, sampler=self.sampler, drop_last=True, **workers)
        self.val_loader = DataLoader(val, options.batch_size, sampler=DistributedSampler(val, shuffle=False), **workers)
        self.steps = min(len(self.loader), options.steps or len(self.loader))
        self.global_batch = options.batch_size * world

        torch.manual_seed(options.seed)
        make = {"convnet": convnet, "toy": toy, "resnet18": resnet18, "resnet50": resnet50}[options.model]
        model = make(len(train.classes), train[0][0].numel()).to(self.device)
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True
            model = model.to(memory_format=torch.channels_last)
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=options.epochs * self.steps)
        self.step, self.seconds, self.trained = 0, 0.0, 0
        self.rate, self.data_wait = 0.0, 0.0  # In the last epoch.

    def resume(self):
        path = self.options.checkpoint
        if not path or not os.path.exists(path):
            return
        saved = torch.load(path, weights_only=True)
        self.model.module.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.step = saved["step"]
        self.say(f"resumed at step {self.step}")

    def save(self):
        if self.options.checkpoint and self.rank == 0:
            torch.save({"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "schedule": self.schedule.state_dict(), "step": self.step}, self.options.checkpoint + ".new")
            os.replace(self.options.checkpoint + ".new", self.options.checkpoint)

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        self.model.train()
        scores = Scores(self.device)
        done = self.step - epoch * self.steps  # Before the checkpoint that was read.
        began, first = time.perf_counter(), self.trained
        waited = 0.0
        batches = itertools.islice(self.loader, done, self.steps)
        while batch := self.timed(next, batches, None):
            waited += self.took
            images, labels = self.on_device(*batch)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                output = self.model(images)
                loss = nn.functional.cross_entropy(output, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            scores.add(output, labels, loss)
            self.step += 1
            self.trained += self.global_batch
            if self.step % self.options.log_interval == 0:
                self.say(f"step {self.step}")
            if self.options.checkpoint_interval and self.step % self.options.checkpoint_interval == 0:
                self.save()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        self.seconds += seconds
        self.rate, self.data_wait = (self.trained - first) / seconds, waited / seconds

    def timed(self, function, *arguments):
        began = time.perf_counter()
        result = function(*arguments)
        self.took = time.perf_counter() - began
        return result

    def on_device(self, images, labels):
        if self.device.type == "cpu":
            return images, labels
        images = images.to(self.device, non_blocking=True).to(memory_format=torch.channels_last)
        return images, labels.to(self.device, non_blocking=True)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        scores = Scores(self.device)
        for images, labels in itertools.islice(self.val_loader, self.options.steps or None):
            images, labels = self.on_device(images, labels)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                output = self.model.module(images)
            scores.add(output, labels, nn.functional.cross_entropy(output, labels))
        return scores.over_all_ranks()

    def run(self):
        self.resume()
        for epoch in range(self.step // self.steps, self.options.epochs):
            self.train_epoch(epoch)
            result = self.validate()
            self.save()
        self.say(json.dumps({"samples_per_second": self.trained / self.seconds, "rate": self.rate,
                             "data_wait": self.data_wait, "eval_loss": result["loss"],
                             "eval_top1": result["top1"], "eval_top5": result["top5"]}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    for name, default in (("epochs", 1), ("batch-size", 64), ("workers", 0), ("seed", 0), ("log-interval", 50),
                          ("checkpoint-interval", 0), ("steps", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    options = parser.parse_args()
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo" if options.device == "cpu" else "nccl")
    Training(options).run()
    dist.barrier()
    os._exit(0)  # Gloo's threads may abort at a usual exit.


if __name__ == "__main__":
    main()
