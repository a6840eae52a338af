"""How tests are left to `make check`."""

import pytest


def also_long(*values):
    """More values of a parameter: those that `make check` tries, and `make test` does not."""
    return [pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long) for value in values]
