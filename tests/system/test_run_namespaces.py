"""Two network namespaces as two hosts: a 2 x 2 job, then one host dies, then its link."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import WAITING
from two_hosts import ADDRESSES, are_possible, two_hosts

pytestmark = pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")


@pytest.fixture
def hosts():
    with two_hosts() as pair:
        yield pair


def start_two_by_two(launcher, hosts, *program):
    return [
        launcher.start(
            "--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", ADDRESSES[0],
            "--local-addr", f"host{'ab'[rank]}", *program, prefix=hosts[rank].command())
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


@pytest.mark.parametrize("victim", [0, 1])
def test_host_where_everything_is_killed_is_named(launcher, hosts, victim):
    jobs = start_two_by_two(launcher, hosts, launcher.script(WAITING))
    launcher.up(4)
    for pid in hosts[victim].pids():
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
    hosts[victim].set_link("down")
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
    hosts[1].set_link("down")
    time.sleep(1)
    hosts[1].set_link("up")
    assert [job.wait(20) for job in jobs] == [0, 0]


def test_only_the_given_address_is_listened_on(launcher, hosts):
    jobs = start_two_by_two(launcher, hosts, launcher.script(WAITING))
    launcher.up(4)
    done = subprocess.run(hosts[0].command("ss", "-lntH"), check=True,
                          capture_output=True, text=True)
    listeners = [line.split()[3] for line in done.stdout.splitlines()]
    assert f"{ADDRESSES[0]}:29500" in listeners
    assert len(listeners) == 2 and all(l.startswith(ADDRESSES[0] + ":") for l in listeners)
    done = subprocess.run(hosts[1].command("ss", "-lntH"), check=True,
                          capture_output=True, text=True)
    assert done.stdout == ""
    jobs[0].terminate()
    assert [job.wait(10) for job in jobs] == [143, 143]
    launcher.assert_clean()
