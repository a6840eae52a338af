#!/usr/bin/env python3
"""`lockstep bench hosts`: training on several hosts, or one all_reduce, our backend beside Gloo's.

Network namespaces of this machine are hosts, joined by links that are slowed down (not for --allreduce).
Every contender is a job of 2 ranks on each host that starts once and takes its turns with the others; what a
host sends is counted at its end of the link. Needs root and iproute2.

    lockstep bench hosts [--hosts 2] [--model resnet18] [--rate 1gbit] [--hooks bf16,power_sgd] [--cyclic] [--train]
    lockstep bench hosts --allreduce [--hosts 4] [--bytes 1024] [--rounds 5] [--json]
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))
import two_hosts  # noqa: E402

ORDER_BYTES = 48  # As in benchmarks/orders.h.
RANKS_PER_HOST = 2


def start_ranks(hosts, port, command, cyclic=False, per_host=RANKS_PER_HOST):
    """So many on each host, numbered host by host, or dealt to the hosts in turn."""
    size = per_host * len(hosts)
    ranks = []
    for rank in range(size):
        host, local = (rank % len(hosts), rank // len(hosts)) if cyclic else divmod(rank, per_host)
        variables = {
            "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": per_host,
            "MASTER_ADDR": hosts[0].address, "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": hosts[host].link,
            "OMP_NUM_THREADS": 1,
        }  # fmt: skip
        ranks.append(subprocess.Popen(
            hosts[host].command(*command), text=True,
            env={**os.environ, **{key: str(value) for key, value in variables.items()}},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=sys.stderr))
    return ranks


class Contender:
    """One job over the hosts, told what to do through a pipe: see benchmarks/orders.h."""

    def __init__(self, name, hosts, folder, port, command, cyclic=False, per_host=RANKS_PER_HOST):
        self.name = name
        self.hosts = hosts
        self.size = per_host * len(hosts)
        pipe = pathlib.Path(folder) / f"orders{port}"
        os.mkfifo(pipe)
        self.ranks = start_ranks(hosts, port, [part.format(pipe=pipe) for part in command], cyclic,
                                 per_host)
        self.pipe = os.open(pipe, os.O_RDWR)  # Does not wait for ranks that never come.

    def tell(self, order):
        for _ in range(self.size):
            os.write(self.pipe, f"{order:<{ORDER_BYTES - 1}}\n".encode())
        answer = self.ranks[0].stdout.readline()
        if not answer:
            raise SystemExit(f"lockstep bench hosts: {self.name} ended; see above")
        return json.loads(answer)

    def turn(self, steps):
        """Milliseconds a step, and MiB that a host sent in one, on average."""
        self.tell("time 0 1")
        before = sum(host.sent_bytes() for host in self.hosts)
        seconds = self.tell(f"time 0 {steps}")["seconds"]
        sent = sum(host.sent_bytes() for host in self.hosts) - before
        return 1e3 * sum(seconds) / steps, sent / steps / len(self.hosts) / 2**20

    def end(self):
        os.close(self.pipe)
        for rank in self.ranks:
            try:
                rank.wait(20)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()


def measure_steps(options, hosts, folder):
    ours = str(options.bin / "benchmarks" / "step_ranks")
    rest = ["{pipe}", options.model, str(options.batch_size), "cpu"]
    peer = [options.python, str(HERE / "peers" / "step.py")]
    contenders = [Contender("lockstep", hosts, folder, 29601, [ours, "lockstep", *rest], options.cyclic),
                  Contender("gloo", hosts, folder, 29602, [ours, "gloo", *rest], options.cyclic)]
    if options.python:
        contenders.append(Contender("PyTorch", hosts, folder, 29603, [*peer, "gloo", *rest], options.cyclic))
    for number, hook in enumerate(options.hooks):
        words = [*rest, f"{hook}-hook"]
        contenders.append(Contender(f"lockstep {hook}", hosts, folder, 29604 + 2 * number,
                                    [ours, "lockstep", *words], options.cyclic))
        if options.python:
            contenders.append(Contender(f"PyTorch {hook}", hosts, folder, 29605 + 2 * number,
                                        [*peer, "gloo", *words], options.cyclic))
    losses = {contender.name: contender.tell("check 5")["losses"] for contender in contenders}
    for name, values in losses.items():
        # Four numbers are summed in another order: the last bits may differ. A hook's are close to those without.
        tolerance = 3e-2 if " " in name else 1e-3
        # Later ones differ more; PowerSGD's compress from the third update on, and must still fall.
        close = all(abs(a - b) <= tolerance * abs(b) for a, b in zip(values[:3], losses["gloo"][:3], strict=True))
        if not (close and values[-1] < values[0]):
            raise SystemExit(f"lockstep bench hosts: the losses of {name} are {values}, of gloo {losses['gloo']}")
    turns = {contender.name: [] for contender in contenders}
    for number in range(options.rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            turns[contender.name].append(contender.turn(options.steps))
    for contender in contenders:
        contender.end()
    return {name: {"ms": [ms for ms, _ in values], "mib": statistics.median(mib for _, mib in values)}
            for name, values in turns.items()}


def show_steps(options, contenders):
    ours = statistics.median(contenders["lockstep"]["ms"])
    print(f"{options.model}, batch of {options.batch_size} a rank, {options.hosts} hosts with {RANKS_PER_HOST} ranks each"
          f"{' in turn' if options.cyclic else ''}, {options.rate} between them, {len(os.sched_getaffinity(0))} cores in all, medians of {options.rounds} rounds\n")
    print(f"{'':28} {'ms a step':>10} {'/ ours':>8} {'MiB sent by a host':>20}")
    hooks = [(f"{side} {hook}", f"{text}, {hook} hook") for hook in options.hooks
             for side, text in (("lockstep", "ours"), ("PyTorch", "PyTorch's"))]
    for name, text in (("lockstep", "ours"), ("gloo", "our DDP over Gloo"), ("PyTorch", "PyTorch's DDP over Gloo"), *hooks):
        if name in contenders:
            ms = statistics.median(contenders[name]["ms"])
            print(f"{text:28} {ms:10.1f} {ms / ours:8.2f} {contenders[name]['mib']:20.1f}")


def measure_allreduce(options, hosts, folder, per_host):
    """Microseconds of one all_reduce on rank 0, after a barrier: a list of medians, one of each round, per contender."""
    ours = str(options.bin / "benchmarks" / "allreduce_ranks")
    contenders = [Contender(name, hosts, folder, port, [ours, name, "{pipe}", str(options.bytes)], per_host=per_host)
             for name, port in (("lockstep", 29621 + 2 * per_host), ("gloo", 29622 + 2 * per_host))]
    medians = {contender.name: [] for contender in contenders}
    for contender in contenders:
        contender.tell(f"{contender.name} {options.bytes} 20")
    for number in range(options.rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            seconds = contender.tell(f"{contender.name} {options.bytes} {options.repetitions}")["seconds"]
            medians[contender.name].append(1e6 * statistics.median(seconds))
    for contender in contenders:
        contender.end()
    return medians


def show_allreduce(options, rows):
    print(f"all_reduce of {options.bytes} bytes, {options.hosts} hosts, {len(os.sched_getaffinity(0))} cores in all, "
          f"medians of {options.rounds} rounds of {options.repetitions}\n")
    print(f"{'ranks on a host':>15} {'ours, us':>10} {'Gloo, us':>10} {'ours / Gloo':>12}")
    for per_host, contenders in rows.items():
        ours, gloo = (statistics.median(contenders[name]) for name in ("lockstep", "gloo"))
        print(f"{per_host:15} {ours:10.0f} {gloo:10.0f} {ours / gloo:12.2f}")


def train(options, hosts):
    """One epoch: seconds and accuracy."""
    begin = time.monotonic()
    ranks = start_ranks(hosts, 29610, [options.bin / "lockstep", "train", "--epochs", 1], options.cyclic)
    out = ranks[0].communicate()[0]
    if any(rank.wait() != 0 for rank in ranks):
        raise SystemExit("lockstep bench hosts: training failed; see above")
    accuracy = re.findall(r"accuracy[^0-9]*([0-9.]+)", out)
    return {"hosts": len(hosts), "ranks": len(ranks), "s": time.monotonic() - begin,
            "accuracy": float(accuracy[-1]) if accuracy else None}


def main():
    parser = argparse.ArgumentParser(prog="lockstep bench hosts", description=__doc__.split("\n\n")[1])
    parser.add_argument("--hosts", type=int, help="how many; 2, or 4 with --allreduce, unless told")
    parser.add_argument("--allreduce", action="store_true", help="one all_reduce instead of a training step, with 1 and with 2 ranks a host")
    parser.add_argument("--bytes", type=int, default=1024, help="of the tensor that --allreduce sums")
    parser.add_argument("--repetitions", type=int, default=200, help="of it in a round")
    parser.add_argument("--model", default="resnet18", choices=["mlp", "convnet", "resnet18"])
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--rate", default="1gbit", help="what each host can send, as tc writes it")
    parser.add_argument("--hooks", default="", help="communication hooks that take part as well: bf16, power_sgd or both, with a comma between")
    parser.add_argument("--cyclic", action="store_true", help="ranks are dealt to the hosts in turn, as `srun -m cyclic` does")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="in a turn")
    parser.add_argument("--train", action="store_true", help="also one epoch of `lockstep train` on one and on all hosts")
    parser.add_argument("--json", action="store_true", help="one object per table")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch; '' leaves PyTorch out")
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build" / "bin", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hosts is None:
        options.hosts = 4 if options.allreduce else 2
    if min(options.rounds, options.steps, options.batch_size, options.repetitions) < 1:
        parser.error("--rounds, --steps, --batch-size and --repetitions are at least 1")
    options.hooks = [hook for hook in options.hooks.split(",") if hook]
    if unknown := set(options.hooks) - {"bf16", "power_sgd"}:
        parser.error(f"--hooks {', '.join(unknown)}: expected bf16 or power_sgd")
    if not 2 <= options.hosts <= len(two_hosts.ADDRESSES):
        parser.error(f"--hosts is 2 to {len(two_hosts.ADDRESSES)}")
    if options.bytes < 4 or options.bytes % 4 != 0:
        parser.error("--bytes is a multiple of 4, the size of a float")
    if not two_hosts.are_possible():
        raise SystemExit("lockstep bench hosts: needs root and iproute2: it makes network namespaces")
    for number in (signal.SIGTERM, signal.SIGHUP):  # Nothing is left behind.
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    with two_hosts.several_hosts(options.hosts) as hosts, tempfile.TemporaryDirectory() as folder:
        if options.allreduce:
            rows = {per_host: measure_allreduce(options, hosts, folder, per_host) for per_host in (1, 2)}
            if options.json:
                print(json.dumps({"bench": "hosts", "allreduce": options.bytes, "hosts": options.hosts, "us": rows}))
            else:
                show_allreduce(options, rows)
            return
        for host in hosts:
            try:
                host.slow_down(options.rate)
            except subprocess.CalledProcessError as error:
                raise SystemExit(f"lockstep bench hosts: --rate {options.rate}: tc says: {error.stderr.decode().strip()}")
        contenders = measure_steps(options, hosts, folder)
        if options.json:
            print(json.dumps({"bench": "hosts", "model": options.model, "hosts": options.hosts, "rate": options.rate, "cyclic": options.cyclic, **contenders}))
        else:
            show_steps(options, contenders)
        if options.train:
            rows = [train(options, hosts[:1]), train(options, hosts)]
            if options.json:
                print(json.dumps({"bench": "hosts", "train": rows}))
            else:
                print("\none epoch of `lockstep train`\n\nhosts  ranks        s   accuracy")
                for row in rows:
                    print(f"{row['hosts']:5} {row['ranks']:6} {row['s']:8.1f}   {row['accuracy']} %")


main()
