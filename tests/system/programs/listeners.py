"""A Python rank that prints the addresses on which it listens, once its Gloo group is formed."""
import ipaddress
import os
import struct
import sys

import torch.distributed as dist


def inodes():
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def address(text):
    words = [int(text[i:i + 8], 16) for i in range(0, len(text), 8)]
    raw = ipaddress.ip_address(b"".join(struct.pack("=I", word) for word in words))
    return getattr(raw, "ipv4_mapped", None) or raw


dist.init_process_group("gloo")
mine = set(inodes())
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    with open(table) as lines:
        for line in list(lines)[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in mine:  # 0A: listening
                sys.stdout.write(f"{address(fields[1].split(':')[0])}\n")  # One write: ranks share the pipe.
dist.barrier()
dist.destroy_process_group()
