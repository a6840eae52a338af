"""Two network namespaces as two hosts, for tests and benchmarks. Needs root and iproute2."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import uuid

ADDRESSES = ("10.213.77.1", "10.213.77.2")


def are_possible():
    return os.geteuid() == 0 and shutil.which("ip") is not None


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


@dataclasses.dataclass
class Host:
    name: str  # Of its namespace.
    link: str  # Its end of the one cable.
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
def two_hosts():
    """Two that see only each other."""
    tag = uuid.uuid4().hex[:6]
    hosts = [Host(f"lockstep-{tag}-{i}", f"ls{tag}{i}", ADDRESSES[i]) for i in (0, 1)]
    try:
        for host in hosts:
            ip("netns", "add", host.name)
            ip("-n", host.name, "link", "set", "lo", "up")
        ip("link", "add", hosts[0].link, "netns", hosts[0].name, "type", "veth", "peer", "name",
           hosts[1].link, "netns", hosts[1].name)
        for host in hosts:
            ip("-n", host.name, "address", "add", host.address + "/24", "dev", host.link)
            host.set_link("up")
        yield hosts
    finally:
        for host in hosts:
            for pid in host.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", host.name], capture_output=True, timeout=10)
