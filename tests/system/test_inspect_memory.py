"""`lockstep inspect` of a file that is larger than the memory. A sanitizer leaves no room for such a limit."""

import resource

from test_inspect import OTHER, inspect


def test_a_file_that_does_not_fit_in_memory_is_named(tmp_path):
    with open(tmp_path / "large.pt", "wb") as file:
        file.truncate(1 << 33)
    limit = 1 << 30

    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = inspect(str(tmp_path / "large.pt"), OTHER, preexec_fn=little_memory)
    assert done.returncode == 1
    assert "large.pt' has 8589934592 bytes, more than this process can have in memory" in done.stderr
    assert "safetensors file" in done.stdout
