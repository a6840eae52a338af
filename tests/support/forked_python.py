"""Runs scripts in forks of a Python that has imported torch already: importing it and its optimizers takes 2 to 3 s.

The forks are of this file as a program. It listens on its standard input, a Unix socket, where each message is
a script, its environment and its folder, with three descriptors: stdout, stderr, and a pipe that is told the pid
and, at the end, the exit code.
"""

import contextlib
import json
import os
import pathlib
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import time

LARGEST_MESSAGE = 1 << 20


class Script:
    """One that runs; as subprocess.Popen, of which it has what tests need."""

    def __init__(self, server, path, environment, folder):
        pipes = [os.pipe() for _ in range(3)]
        message = json.dumps([str(path), environment, str(folder)]).encode()
        socket.send_fds(server, [message], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self.streams = [open(read, "rb", buffering=0) for read, _ in pipes]
        self.pid = int(self.streams[2].readline())
        self.args = [str(path)]
        self.returncode = None

    def kill(self):
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        if self.returncode is None:
            self.returncode = int(self.streams[2].readline())
            self.streams[2].close()
        return self.returncode

    def communicate(self, timeout):
        texts = {stream: b"" for stream in self.streams[:2]}
        limit = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for stream in texts:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(limit - time.monotonic())
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                for key, _ in ready:
                    if piece := key.fileobj.read(65536):
                        texts[key.fileobj] += piece
                    else:
                        selector.unregister(key.fileobj)
        self.wait()
        return tuple(text.decode() for text in texts.values())


class ForkedPython:
    """Starts the program below, and scripts in forks of it."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # numpy's; it would start threads.
        self.process = subprocess.Popen([sys.executable, __file__], stdin=theirs, env=alone)
        theirs.close()

    def start(self, path, environment, folder):
        return Script(self.socket, path, environment, folder)

    def close(self):
        self.socket.close()
        self.process.wait()


def next_script(server):
    """Returns in a fork for each script, with it."""
    while True:
        message, fds, _, _ = socket.recv_fds(server, LARGEST_MESSAGE, 3)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            return start_watched(server, message, fds)
        for fd in fds:
            os.close(fd)


def start_watched(server, message, fds):
    """Returns in a child, whose end this process tells."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child != 0:
        os.write(fds[2], f"{child}\n".encode())
        os.close(fds[0])
        os.close(fds[1])
        end = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        os.write(fds[2], f"{code}\n".encode())
        reader = select.poll()
        reader.register(fds[2], 0)
        reader.poll()  # Until it closes its end; till then others can see how the script ended.
        os._exit(0)
    server.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd, number in ((fds[0], 1), (fds[1], 2)):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    path, environment, folder = json.loads(message)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return path


if __name__ == "__main__":
    import torch
    import torch._dynamo  # As every optimizer does.
    import torch.distributed  # noqa: F401

    # The backend is loaded by the scripts, with their environment; a fork has no other thread than this one.
    assert "lockstep" not in sys.modules and len(os.listdir("/proc/self/task")) == 1
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.argv = [next_script(socket.socket(fileno=os.dup(0)))]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
