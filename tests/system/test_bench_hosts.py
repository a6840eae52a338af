"""`lockstep bench hosts`, as short as it goes."""

import json
import os
import subprocess
import time

import pytest
from conftest import BIN, wait_for
from two_hosts import are_possible


def namespaces():
    done = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return {line.split()[0] for line in done.stdout.splitlines()}


def pids_in(name):
    return subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")
def test_our_ranks_send_every_byte_once_and_hooks_send_fewer():
    done = subprocess.run([f"{BIN}/lockstep", "bench", "hosts", "--model", "mlp", "--rounds", "1", "--steps", "5",
                           "--hooks", "bf16,power_sgd", "--python", "", "--json"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    gradients = (784 * 256 + 2 * 256 * 256 + 256 * 10 + 3 * 256 + 10) * 4 / 2**20
    assert gradients <= row["lockstep"]["mib"] < 1.3 * gradients
    assert row["gloo"]["mib"] > 1.4 * gradients
    assert gradients / 2 <= row["lockstep bf16"]["mib"] < 0.65 * gradients
    assert row["lockstep power_sgd"]["mib"] < 0.2 * gradients


@pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")
def test_an_all_reduce_over_three_hosts_is_measured_beside_gloos():
    done = subprocess.run([f"{BIN}/lockstep", "bench", "hosts", "--allreduce", "--hosts", "3", "--rounds", "2",
                           "--repetitions", "5", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["hosts"] == 3 and row["allreduce"] == 1024
    for sides in row["us"].values():
        assert {name: len(medians) for name, medians in sides.items()} == {"lockstep": 2, "gloo": 2}
        assert all(us > 0 for medians in sides.values() for us in medians)


@pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")
def test_nothing_is_left_when_it_is_ended():
    before = namespaces()
    bench = subprocess.Popen([f"{BIN}/lockstep", "bench", "hosts", "--model", "mlp", "--rounds", "1000", "--python", ""],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (made := namespaces() - before) or not any(pids_in(name) for name in made):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    pids = {pid for name in made for pid in pids_in(name)}
    bench.terminate()
    assert bench.wait(30) == 143
    assert namespaces() == before
    wait_for(lambda: not [pid for pid in pids if os.path.exists(f"/proc/{pid}")], what="the end of its processes")
