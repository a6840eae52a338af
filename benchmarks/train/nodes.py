"""Two nodes of one core each beside one: network namespaces of this machine are the nodes."""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
import two_hosts  # noqa: E402
from jobs import Job, environment, fail, median, ours  # noqa: E402
from throughput import idx_folder  # noqa: E402

SPEED_GOAL = 1.7
ACCURACY_GOAL = 0.3  # Points.


def cores():
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        fail(f"row nodes needs two cores, and there is {len(usable)}; leave it out with --rows")
    return usable[:2]


def turn(options, seed, nodes):
    """What each node took, rank 0's scores in the first: `nodes` are commands to put before the program."""
    flags = ["--global-batch-size", options.global_batch_size, "--epochs", options.epochs, "--lr", 0.05, "--seed", seed, "--json"]
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(Job([*before, *ours(options, idx_folder(options), *flags, *more)], environment(1),
                                        out=subprocess.PIPE if not number else subprocess.DEVNULL))
                for number, (before, more) in enumerate(nodes)]
        return [job.finish() for job in jobs]


def measure(options, _):
    if not two_hosts.are_possible():
        fail("row nodes needs root and iproute2: it makes network namespaces; leave it out with --rows")
    core = [["taskset", "-c", number] for number in cores()]
    results = {"main": [], "worker": [], "single": []}
    with two_hosts.two_hosts() as hosts:
        pair = [(hosts[i].command(*core[i]), ["--nodes", 2, "--nr", i, "--master-addr", hosts[0].address, "--master-port", 29650])
                for i in (0, 1)]
        for seed in range(options.seeds):
            for two in (True, False) if seed % 2 == 0 else (False, True):
                done = turn(options, seed, pair if two else [(core[0], [])])
                for name, result in zip(("main", "worker") if two else ("single",), done):
                    results[name].append(result)
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    top1 = {name: statistics.mean(r["eval_top1"] for r in results[name]) for name in ("main", "single")}
    return {"row": "nodes", "seeds": options.seeds, "epochs": options.epochs, "results": results,
            "speedup": statistics.median(single["wall"] / main["wall"] for main, single in zip(results["main"], results["single"])),
            "training_speedup": median(results["main"], "samples_per_second") / median(results["single"], "samples_per_second"),
            "accuracy_difference": top1["main"] - top1["single"]}


def show(options, tables):
    for table in tables:
        print(f"Fashion-MNIST, convnet, {options.epochs} epochs, a global batch of {options.global_batch_size}: two nodes of one core "
              f"each beside one\n\n{'':8} {'wall s':>8} {'user s':>8} {'sys s':>7} {'Acc@1':>7} {'Acc@5':>7}")
        for name, results in table["results"].items():
            scores = [f"{statistics.mean(r[key] for r in results):7.2f}" if key in results[0] else f"{'-':>7}"
                      for key in ("eval_top1", "eval_top5")]
            print(f"{name:8} {median(results, 'wall'):8.1f} {median(results, 'user'):8.1f} {median(results, 'sys'):7.1f} {' '.join(scores)}")
        print(f"\ntwo nodes are {table['speedup']:.2f} times as fast (goal {SPEED_GOAL}), in training steps alone "
              f"{table['training_speedup']:.2f} times; Acc@1 differs by\n{table['accuracy_difference']:+.2f} points (goal {ACCURACY_GOAL}). "
              f"Medians of {options.seeds} seeds, accuracy their mean. The nodes validate together:\nthe worker's accuracy is main's.\n")
