"""Shared-memory process groups for torch.distributed: init_process_group("lockstep").

Importing it registers the backend. From torch 2.14 on torch imports it by itself, by entry point.
"""

import torch
import torch.distributed as dist

from ._build import TORCH_VERSION, VERSION as __version__

# c10d's classes change from release to release: a module built for another one crashes at best.
if torch.__version__ != TORCH_VERSION:
    raise ImportError(
        f"lockstep {__version__} was built for torch {TORCH_VERSION}, this is torch {torch.__version__}; "
        "build it again, in a checkout of lockstep: pip install --force-reinstall ./python"
    )

from . import _arena, _C  # noqa: E402
from ._arena import arena, memory_stats  # noqa: E402, F401


def _make_backend(store, rank, size, timeout):
    wants_arena = _arena.is_wanted()  # A wrong value is an error before anyone waits.
    is_default_group = not dist.is_initialized()
    backend = _C.make_backend(store, rank, size, timeout)
    if wants_arena and is_default_group and size > 1:
        _arena.use_in_all_threads(backend)
    return backend


def register():
    """Makes "lockstep" a backend of torch.distributed, for CPU tensors; harmless when repeated."""
    dist.Backend.register_backend("lockstep", _make_backend, devices=["cpu"])


register()
