"""Network namespaces as hosts, for tests and benchmarks. Needs root and iproute2."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import uuid

ADDRESSES = tuple(f"10.213.77.{number}" for number in range(1, 9))


def are_possible():
    return os.geteuid() == 0 and shutil.which("ip") is not None


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


@dataclasses.dataclass
class Host:
    name: str  # Its namespace's.
    link: str  # Its end of the cable to the switch.
    address: str

    def command(self, *arguments):
        return ["ip", "netns", "exec", self.name, *map(str, arguments)]

    def pids(self):
        done = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True)
        return [int(pid) for pid in done.stdout.split()]

    def set_link(self, state):
        ip("-n", self.name, "link", "set", self.link, state)

    def slow_down(self, rate):
        """Lets it send so much, say "1gbit"."""
        done = self.command("tc", "qdisc", "add", "dev", self.link, "root", "tbf", "rate", rate,
                            "burst", "128kb", "latency", "50ms")
        subprocess.run(done, check=True, capture_output=True, timeout=10)

    def sent_bytes(self):
        done = subprocess.run(self.command("cat", f"/sys/class/net/{self.link}/statistics/tx_bytes"),
                              check=True, capture_output=True, text=True)
        return int(done.stdout)


@contextlib.contextmanager
def several_hosts(count):
    """That many that see only each other, through a switch in a namespace of its own."""
    tag = uuid.uuid4().hex[:6]
    switch = f"lockstep-{tag}-switch"
    hosts = [Host(f"lockstep-{tag}-{i}", f"ls{tag}{i}", ADDRESSES[i]) for i in range(count)]
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for host in hosts:
            ip("netns", "add", host.name)
            ip("-n", host.name, "link", "set", "lo", "up")
            ip("link", "add", host.link, "netns", host.name, "type", "veth", "peer", "name", host.link, "netns", switch)
            ip("-n", switch, "link", "set", host.link, "master", "br0", "up")
            ip("-n", host.name, "address", "add", host.address + "/24", "dev", host.link)
            host.set_link("up")
        yield hosts
    finally:
        for host in hosts:
            for pid in host.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for name in (*(host.name for host in hosts), switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=10)


def two_hosts():
    return several_hosts(2)
