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

from . import _C  # noqa: E402


def register():
    """Makes "lockstep" a backend of torch.distributed, for CPU tensors; harmless when repeated."""
    dist.Backend.register_backend("lockstep", _C.make_backend, devices=["cpu"])


register()
