"""The backend "lockstep" on several hosts: what goes over the wire, and who is told when a host is gone.

Ranks are started without a launcher, which would end them by itself when it loses a node.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from conftest import BIN, stop
from marks import also_long
from two_hosts import ADDRESSES, are_possible, several_hosts

pytestmark = pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")


@pytest.fixture
def layout():
    """How many ranks each host has."""
    return (2, 2)


@pytest.fixture
def hosts(layout):
    with several_hosts(len(layout)) as all_of_them:
        yield all_of_them


@pytest.fixture
def start(hosts, layout):
    """The ranks, host by host, as a function that is told what they do."""
    started = []

    def start_ranks(*arguments, **environment):
        places = [host for host, ranks in zip(hosts, layout) for _ in range(ranks)]
        for rank, host in enumerate(places):
            own = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(places)), "MASTER_ADDR": ADDRESSES[0],
                   "MASTER_PORT": "29511", **environment}
            command = host.command(os.path.join(BIN, "comm_program"), *arguments)
            started.append(subprocess.Popen(command, env=own, text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE))
        return started

    yield start_ranks
    for process in started:
        process.kill()
        process.wait()


def wait_until_ready(ranks):
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n", rank.communicate()


def waits_of(pid):
    """Where the kernel has each thread of a process that does not end."""
    return [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/wchan")]


def failure_of(rank):
    try:
        out, err = rank.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{rank.args} does not end; its threads wait in {waits_of(rank.pid)}")
    match = re.search(r"failed after ([0-9.]+) s: (.*)", out)
    assert match, (out, err)
    assert rank.returncode == 0, err
    return float(match[1]), match[2]


# With data on its way and without: the kernel gives up on the two in different ways.
@pytest.mark.parametrize(("victim", "elements"), [(0, 5_000_000), (1, 10)])
def test_a_host_whose_link_goes_down_is_named_within_5_s(hosts, start, victim, elements):
    ranks = start("until_error", 60, elements)
    wait_until_ready(ranks)
    hosts[victim].set_link("down")
    begin = time.monotonic()
    for number, rank in enumerate(ranks):
        seconds, reason = failure_of(rank)
        assert seconds < 5
        assert f"on rank {number} of 4" in reason
        other = 1 - number // 2  # Each side takes the other for dead.
        assert ADDRESSES[other] in reason
        assert f"ranks {2 * other}, {2 * other + 1}" in reason
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("victim", [0, 1])
def test_a_host_where_everything_is_killed_is_named(hosts, start, victim):
    ranks = start("until_error", 60, 1000)
    wait_until_ready(ranks)
    for pid in hosts[victim].pids():
        os.kill(pid, signal.SIGKILL)
    for rank in ranks[2 - 2 * victim:4 - 2 * victim]:
        seconds, reason = failure_of(rank)
        assert seconds < 5
        assert ADDRESSES[victim] in reason or re.search(rf"rank [{2 * victim}{2 * victim + 1}]\b", reason)


# The victim takes another for dead, or all of them.
@pytest.mark.parametrize("layout, elements", [
    ((1, 2, 3), 5_000_000), ((1, 1, 1, 1), 10), *also_long(((1, 2, 3), 10), ((1, 1, 1, 1), 5_000_000))])
def test_one_of_several_hosts_whose_link_goes_down_is_named_by_the_others(hosts, start, layout, elements):
    ranks = start("until_error", 60, elements)
    wait_until_ready(ranks)
    victim = 1
    hosts[victim].set_link("down")
    gone = range(layout[0], layout[0] + layout[1])
    for number, rank in enumerate(ranks):
        seconds, reason = failure_of(rank)
        assert seconds < 5
        assert f"on rank {number} of {sum(layout)}" in reason
        if number not in gone:
            assert ADDRESSES[victim] in reason, reason


@pytest.mark.parametrize("layout", [(1, 2, 3), *also_long(((1, 1, 1, 1),))])
def test_a_killed_rank_of_several_hosts_ends_all(start, layout):
    ranks = start("until_error", 60, 1000)
    wait_until_ready(ranks)
    ranks[-1].kill()
    for rank in ranks[:-1]:
        seconds, reason = failure_of(rank)
        assert seconds < 5
        assert re.search(rf"rank {len(ranks) - 1}\b|ranks [0-9, ]*{len(ranks) - 1}\b", reason), reason


def test_a_stopped_rank_is_waited_for(hosts, start):
    ranks = start("until_error", 60, 5_000_000)
    wait_until_ready(ranks)
    victim = next(pid for pid in hosts[1].pids())
    stop(victim)
    time.sleep(7)
    assert [rank.poll() for rank in ranks] == [None] * 4
    os.kill(victim, signal.SIGCONT)
    time.sleep(1)
    assert [rank.poll() for rank in ranks] == [None] * 4
    os.kill(victim, signal.SIGKILL)
    survivors = [rank for rank in ranks if rank.pid != victim]
    assert len(survivors) == 3
    for rank in survivors:
        assert re.search(r"ranks? [0-9, ]*[23]", failure_of(rank)[1])


# Between n hosts a ring sends each byte of a sum 2 (n - 1) / n times, wherever the ranks are.
@pytest.mark.parametrize("layout", [(2, 2), (2, 1, 2)])
def test_a_host_sends_every_byte_as_often_as_the_ring_of_hosts_asks(hosts, start, layout):
    times, elements = 10, 1_000_000
    before = [host.sent_bytes() for host in hosts]
    ranks = start("count", times, elements)
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        assert out == f"sum {sum(layout)}\n", err
    for host, sent in zip(hosts, before):
        payload = times * elements * 4 * 2 * (len(layout) - 1) / len(layout)
        assert payload <= host.sent_bytes() - sent < 1.1 * payload
