"""What it costs that each rank looks at its gradients in each step: --nonfinite abort beside ignore."""

import os

from jobs import environment, in_turns, median, ours, run
from throughput import ROWS as THROUGHPUT
from throughput import idx_folder

GOAL_PERCENT = 1.0
POLICIES = ("ignore", "abort")


def measure(options, name):
    data = idx_folder(options)
    env = environment(max(1, len(os.sched_getaffinity(0)) // options.ranks))
    flags = ["--nproc", options.ranks, "--json", *THROUGHPUT["fashion-mnist"]["flags"]]
    contenders = {policy: lambda _, policy=policy: run(ours(options, data, *flags, "--nonfinite", policy), env)
                  for policy in POLICIES}
    results = in_turns(contenders, options.rounds)
    rates = {policy: median(result, "samples_per_second") for policy, result in results.items()}
    return {"row": name, "rounds": options.rounds, "ranks": options.ranks, "goal_percent": GOAL_PERCENT,
            "images_per_second": rates, "cost_percent": 100 * (1 - rates["abort"] / rates["ignore"]),
            "rounds_images_per_second": {policy: [r["samples_per_second"] for r in result]
                                         for policy, result in results.items()}}


def show(options, tables):
    print(f"cost of --nonfinite abort, the default, {THROUGHPUT['fashion-mnist']['title']}, {options.ranks} ranks, images/s, "
          f"medians of {options.rounds} interleaved rounds, {len(os.sched_getaffinity(0))} cores\n")
    print(f"{'':24} {'ignore':>9} {'abort':>9} {'cost %':>7} {'at most':>8}")
    for table in tables:
        rates = table["images_per_second"]
        print(f"{'gradients checked':24} {rates['ignore']:9.1f} {rates['abort']:9.1f} {table['cost_percent']:7.2f} "
              f"{table['goal_percent']:8.1f}")
    print()
