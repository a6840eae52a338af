"""Two network namespaces as two hosts: a 2 x 2 job, then one host dies, then its link."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import WAITING
from two_hosts import ADDRESSES, are_possible, ip, two_hosts

pytestmark = pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")


@pytest.fixture
def hosts():
    with two_hosts() as pair:
        yield pair


def start_two_by_two(launcher, hosts, *program, master=ADDRESSES[0]):
    return [
        launcher.start(
            "--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", master,
            "--node-timeout", 3,
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


@pytest.fixture
def files_of(hosts):
    """Writes a file that one host alone sees as its /etc/NAME."""
    folders = []

    def write(host, name, text):
        folder = pathlib.Path("/etc/netns", host.name)
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(folder)
        (folder / name).write_text(text)

    yield write
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


SLOW_NAMES = """
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
print("up", flush=True)
waiting = []
while True:
    server.settimeout(max(0.001, waiting[0][0] - time.monotonic()) if waiting else None)
    try:
        query, client = server.recvfrom(512)
        waiting.append((time.monotonic() + 4, query, client))
    except TimeoutError:
        _, query, client = waiting.pop(0)
        question = query[12:query.index(b"\\0", 12) + 5]
        is_a = question[-4:-2] == b"\\0\\1"
        answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4" + socket.inet_aton(sys.argv[1]) if is_a else b""
        server.sendto(query[:2] + b"\\x85\\x80\\0\\1\\0" + bytes([is_a]) + b"\\0\\0\\0\\0" + question + answer, client)
"""


def test_name_that_takes_four_seconds_to_look_up_does_no_harm(launcher, hosts, files_of):
    """Node 1 looks it up again when it starts its workers; it must not look dead to node 0 meanwhile."""
    files_of(hosts[0], "hosts", f"127.0.0.1 localhost\n{ADDRESSES[0]} leader.test\n")
    files_of(hosts[1], "hosts", "127.0.0.1 localhost\n")
    files_of(hosts[1], "nsswitch.conf", "hosts: files dns\n")
    files_of(hosts[1], "resolv.conf", f"nameserver {ADDRESSES[0]}\noptions timeout:20 attempts:1\n")
    command = hosts[0].command(sys.executable, "-c", SLOW_NAMES, ADDRESSES[0])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as names:
        assert names.stdout.readline() == "up\n"
        jobs = start_two_by_two(launcher, hosts, "sh", "-c", "sleep 1", master="leader.test")
        for job in jobs:
            _, err = job.communicate(timeout=60)
            assert job.returncode == 0, err
        names.kill()
    launcher.assert_clean()


FULL = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 29500), backlog=0)
clients = [socket.socket() for _ in range(4)]
for client in clients:
    client.setblocking(False)
    client.connect_ex(server.getsockname())
print("up", flush=True)
time.sleep(100)
"""


def test_each_address_of_a_name_is_tried(launcher, hosts, files_of):
    """Two of three let a connection wait for ever, wherever the resolver puts them."""
    deaf = [ADDRESSES[0].rsplit(".", 1)[0] + ending for ending in (".3", ".200")]
    with contextlib.ExitStack() as stack:
        for address in deaf:
            ip("-n", hosts[0].name, "address", "add", address + "/24", "dev", hosts[0].link)
            command = hosts[0].command(sys.executable, "-c", FULL, address)
            server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(server.kill)
            assert server.stdout.readline() == "up\n"
        files_of(hosts[0], "hosts", f"127.0.0.1 localhost\n{ADDRESSES[0]} leader.test\n")
        lines = [f"{address} leader.test\n" for address in (deaf[0], ADDRESSES[0], deaf[1])]
        files_of(hosts[1], "hosts", "127.0.0.1 localhost\n" + "".join(lines))
        files_of(hosts[1], "nsswitch.conf", "hosts: files\n")
        jobs = start_two_by_two(launcher, hosts, "--join-timeout", 20, "true", master="leader.test")
        for job in jobs:
            _, err = job.communicate(timeout=30)
            assert job.returncode == 0, err


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
