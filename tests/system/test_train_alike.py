"""Ranks of another program, with another LibTorch or other data, are refused, and both sides are shown."""

import pathlib
import re
import socket
import subprocess

import pytest

from training import BIN, start, write_idx

SHORT = ["data", "--model", "mlp", "--batch-size", 32, "--epochs", 1, "--output", "ranks"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alike")
    write_idx(folder / "data", train=320, test=64)
    return folder


def assert_refused(folders, pattern, programs=(None, None), env=({}, {})):
    """Rank i runs in folders[i], by programs[i] and env[i]."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    jobs = [start(folders[rank], *SHORT, "--dist-url", url, "--world-size", 2, "--rank", rank, program=programs[rank], env=env[rank])
            for rank in (0, 1)]
    errors = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [2, 2], errors
    assert all(re.search(pattern, error) and "HINT" in error for error in errors), errors
    assert not any((folder / "ranks").exists() for folder in folders)


def test_the_same_program_by_another_name_is_not_refused(shared, tmp_path):
    """Else the tests below would not be about what they change."""
    copy = copy_of_program(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    jobs = [start(shared, *SHORT[:-1], "whole", "--dist-url", url, "--world-size", 2, "--rank", rank, program=program)
            for rank, program in enumerate([BIN / "lockstep-train", copy])]
    errors = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], errors


def copy_of_program(folder, more=b""):
    copy = folder / "lockstep-train"
    copy.write_bytes((BIN / "lockstep-train").read_bytes() + more)
    copy.chmod(0o700)
    return copy


def test_ranks_of_another_program_are_refused(shared, tmp_path):
    """One byte at the end of its file, which changes nothing that it does."""
    assert_refused([shared, shared], r"the program is '\d+ bytes, checksum \d+' here and '\d+ bytes, checksum \d+' on rank 0",
                   programs=[BIN / "lockstep-train", copy_of_program(tmp_path, b"!")])


def test_ranks_with_another_libtorch_are_refused(shared, tmp_path):
    """A copy of its smallest library with another build id; the program is the same."""
    listed = subprocess.run(["ldd", BIN / "lockstep-train"], capture_output=True, text=True, check=True).stdout
    content = bytearray(pathlib.Path(re.search(r"libc10\.so => (\S+)", listed)[1]).read_bytes())
    note = content.index(b"\x14\0\0\0\x03\0\0\0GNU\0") + 12  # 20 bytes of id, NT_GNU_BUILD_ID.
    content[note] ^= 0xff
    (tmp_path / "libc10.so").write_bytes(content)
    assert_refused([shared, shared], r"LibTorch is 'built for .*libc10.so \w+, .*' here and 'built for .*' on rank 0",
                   env=[{}, {"LD_LIBRARY_PATH": str(tmp_path)}])


def test_ranks_with_other_data_are_refused(shared, tmp_path):
    """In a folder of the same name, as on another machine."""
    write_idx(tmp_path / "data", train=320, test=64, seed=1)
    side = r"'320 \+ 64 samples, checksum [\d/]+'"
    assert_refused([shared, tmp_path], f"the data is {side} here and {side} on rank 0")
