"""Two network namespaces as two hosts: a 2 x 2 job, then one host dies, then its link."""

import os
import re
import shutil
import signal
import subprocess
import time
import uuid

import pytest
from conftest import WAITING

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
)

ADDRESSES = ["10.213.77.1", "10.213.77.2"]


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


@pytest.fixture
def hosts():
    """The names of two namespaces that see only each other."""
    tag = uuid.uuid4().hex[:6]
    names = [f"lockstep-{tag}-{i}" for i in (0, 1)]
    links = [f"ls{tag}{i}" for i in (0, 1)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1],
           "netns", names[1])
        for name, link, address in zip(names, links, ADDRESSES):
            ip("-n", name, "address", "add", address + "/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
        yield list(zip(names, links))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=10)


def start_two_by_two(launcher, hosts, *program):
    return [
        launcher.start(
            "--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", ADDRESSES[0],
            "--local-addr", f"host{'ab'[rank]}", *program, prefix=["ip", "netns", "exec", hosts[rank][0]])
        for rank in (0, 1)
    ]


GLOO = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
os.write(1, f"sum {total.item()} of {dist.get_world_size()}\\n".encode())
dist.destroy_process_group()
"""


def test_two_by_two_all_reduce(launcher, hosts):
    jobs = start_two_by_two(launcher, hosts, launcher.script(GLOO))
    for job in jobs:
        out, err = job.communicate(timeout=90)
        assert job.returncode == 0, err
        assert out.splitlines() == ["sum 10.0 of 4"] * 2
    launcher.assert_clean()


def pids_in(name):
    done = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


@pytest.mark.parametrize("victim", [0, 1])
def test_host_where_everything_is_killed_is_named(launcher, hosts, victim):
    jobs = start_two_by_two(launcher, hosts, launcher.script(WAITING))
    launcher.up(4)
    for pid in pids_in(hosts[victim][0]):
        os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    _, err = jobs[1 - victim].communicate(timeout=10)
    assert time.monotonic() - begin < 5
    assert jobs[1 - victim].returncode == 1
    assert f"node {victim} 'host{'ab'[victim]}' is lost" in err.splitlines()[-1]
    jobs[victim].wait(5)
    assert launcher.marked() == {}


@pytest.mark.parametrize("victim", [0, 1])
def test_host_whose_link_goes_down_is_named_on_both_sides(launcher, hosts, victim):
    jobs = start_two_by_two(launcher, hosts, launcher.script(WAITING))
    launcher.up(4)
    name, link = hosts[victim]
    ip("-n", name, "link", "set", link, "down")
    begin = time.monotonic()
    for rank, job in enumerate(jobs):
        _, err = job.communicate(timeout=10)
        assert time.monotonic() - begin < 5
        assert job.returncode == 1
        other = 1 - rank
        assert re.search(rf"node {other} 'host{'ab'[other]}' is lost", err.splitlines()[-1])
    launcher.assert_clean()


def test_link_that_is_down_for_a_second_does_no_harm(launcher, hosts):
    jobs = start_two_by_two(launcher, hosts, "sh", "-c", "touch up$RANK; sleep 3")
    launcher.up(4)
    name, link = hosts[1]
    ip("-n", name, "link", "set", link, "down")
    time.sleep(1)
    ip("-n", name, "link", "set", link, "up")
    assert [job.wait(20) for job in jobs] == [0, 0]


def test_only_the_given_address_is_listened_on(launcher, hosts):
    jobs = start_two_by_two(launcher, hosts, launcher.script(WAITING))
    launcher.up(4)
    done = subprocess.run(["ip", "netns", "exec", hosts[0][0], "ss", "-lntH"], check=True,
                          capture_output=True, text=True)
    listeners = [line.split()[3] for line in done.stdout.splitlines()]
    assert f"{ADDRESSES[0]}:29500" in listeners
    assert len(listeners) == 2 and all(l.startswith(ADDRESSES[0] + ":") for l in listeners)
    done = subprocess.run(["ip", "netns", "exec", hosts[1][0], "ss", "-lntH"], check=True,
                          capture_output=True, text=True)
    assert done.stdout == ""
    jobs[0].terminate()
    assert [job.wait(10) for job in jobs] == [143, 143]
    launcher.assert_clean()
