"""Runs programs of the tests in forks of this process, which has imported torch already: that takes 2 s.

    oracle.py    its standard input is a Unix socket that listens

A connection asks for one program: its path and arguments, with a zero byte after each, up to the end of what is
sent. The answer is what the program prints, and a last line "exit code N".
"""

import contextlib
import gc
import os
import pathlib
import runpy
import select
import signal
import socket
import struct
import sys

import torch  # noqa: F401


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def user_of(connection):
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]


def wait_for(child, connection):
    """Its exit code. It is killed if the test case that asked for it is gone."""
    with open(os.pidfd_open(child), "rb", buffering=0) as end:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.register(connection, 0)  # Its other end closes.
        if end.fileno() not in (fd for fd, _ in poll.poll()):
            os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def next_program(server):
    """Returns in a fork for each program, with its words."""
    while True:
        connection = server.accept()[0]
        if user_of(connection) != os.getuid():  # The name has no permissions, and programs run as this user.
            connection.close()
            continue
        words = read_all(connection).decode().split("\0")[:-1]
        child = os.fork()
        if child == 0:
            server.close()
            os.dup2(connection.fileno(), 1)
            os.dup2(connection.fileno(), 2)
            connection.close()
            return words
        code = wait_for(child, connection)
        with contextlib.suppress(OSError), connection:
            connection.sendall(f"\nexit code {code}\n".encode())


if __name__ == "__main__":
    gc.freeze()  # Collections do not copy the pages that all forks share.
    sys.argv = next_program(socket.socket(fileno=os.dup(0)))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
