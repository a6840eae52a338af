"""`lockstep bench hosts`, as short as it goes."""

import json
import subprocess

import pytest
from conftest import BIN
from two_hosts import are_possible


@pytest.mark.skipif(not are_possible(), reason="needs root and iproute2")
def test_our_ranks_send_every_byte_once_and_gloo_does_not():
    done = subprocess.run([f"{BIN}/lockstep", "bench", "hosts", "--model", "mlp", "--rounds", "1", "--steps", "5",
                           "--python", "", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    gradients = (784 * 256 + 2 * 256 * 256 + 256 * 10 + 3 * 256 + 10) * 4 / 2**20
    assert gradients <= row["lockstep"]["mib"] < 1.3 * gradients
    assert row["gloo"]["mib"] > 1.4 * gradients


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--model", "vgg"], ["--what"]])
def test_flags_that_are_none_are_named(arguments):
    done = subprocess.run([f"{BIN}/lockstep", "bench", "hosts", *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "lockstep bench hosts: error:" in done.stderr
