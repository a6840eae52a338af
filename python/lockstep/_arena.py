"""Tensors in the memory that the ranks of a group share, so that reductions need not copy them there."""

import contextlib
import os
import warnings

import torch
import torch.distributed as dist

from . import _C

SWITCH = "LOCKSTEP_ARENA"


def _backend_of(group, what):
    """The backend of a group for CPU tensors; of the default group if there is none given."""
    if group is None:
        if not dist.is_initialized():
            raise RuntimeError(f'{what}: there is no process group; call init_process_group("lockstep") first')
        group = dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        raise RuntimeError(f"{what}: {group!r} is no process group that this rank is a member of")
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError as error:
        raise RuntimeError(f"{what}: the group has no backend for CPU tensors, expected 'lockstep'") from error
    return getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it.


@contextlib.contextmanager
def arena(group=None):
    """Inside, CPU tensors of 32 KiB and more that this thread makes lie in the group's shared memory.

    all_reduce and reduce over that group then copy nothing, if every rank's tensor lies there. Among them
    are the buckets of a DistributedDataParallel, if its first two forwards run inside. Where the machine
    has too little memory, tensors are made as always. They may outlive the group.
    """
    source = _C.arena_source(_backend_of(group, "lockstep.arena"))
    before = _C.memory_source()
    _C.set_memory_source(source)
    try:
        yield
    finally:
        _C.set_memory_source(before)


def memory_stats(group=None):
    """What the group's arena takes on this rank, in bytes, and what was copied beside it.

    allocated_bytes: of tensors and unread messages; reserved_bytes: of the machine's memory, with what
    was freed and is kept; copied_bytes: that all_reduce and reduce copied into and out of staging buffers.
    """
    return _C.memory_stats(_backend_of(group, "lockstep.memory_stats"))


def is_wanted():
    """Whether LOCKSTEP_ARENA asks for the arena."""
    value = os.environ.get(SWITCH, "")
    if value not in ("", "0", "1"):
        raise RuntimeError(f"environment variable {SWITCH} is '{value}', expected 1 (tensors lie in the arena) or 0")
    return value == "1"


def use_in_all_threads(backend):
    """What LOCKSTEP_ARENA=1 means: arena() for every thread, as long as the group lives."""
    try:
        source = _C.arena_source(backend)
    except RuntimeError as error:
        warnings.warn(f"{SWITCH}=1 does nothing: {error}", stacklevel=2)
        return
    _C.set_memory_source_of_all_threads(source)
