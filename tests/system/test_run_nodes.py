"""Several nodes, here as several launchers on one machine."""

import os
import re
import resource
import signal
import socket
import time

import pytest
from conftest import WAITING, stop, wait_for

SHOW = 'echo "$GROUP_RANK $LOCAL_RANK $RANK $WORLD_SIZE $GROUP_WORLD_SIZE $MASTER_ADDR"'


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Nodes:
    """Starts one launcher per node; the flags common to all are given once."""

    def __init__(self, launcher, *common):
        self.launcher = launcher
        self.port = free_port()
        self.common = common or ("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", self.port)

    def start(self, rank, *arguments, **options):
        pinned = () if rank is None else ("--node-rank", rank)
        return self.launcher.start(*self.common, *pinned, *arguments, **options)


def finish(*jobs, timeout=30):
    return [(*job.communicate(timeout=timeout), job.returncode) for job in jobs]


@pytest.fixture
def nodes(launcher):
    return Nodes(launcher)


def test_two_nodes_with_different_worker_counts(launcher, nodes):
    second = nodes.start(1, "--nproc-per-node", 3, "sh", "-c", SHOW)  # Comes first.
    time.sleep(0.2)
    first = nodes.start(0, "--nproc-per-node", 2, "sh", "-c", SHOW)
    (out0, err0, code0), (out1, err1, code1) = finish(first, second)
    assert (code0, code1, err0, err1) == (0, 0, "", "")
    assert sorted(out0.splitlines()) == ["0 0 0 5 2 127.0.0.1", "0 1 1 5 2 127.0.0.1"]
    assert sorted(out1.splitlines()) == [f"1 {i} {i + 2} 5 2 127.0.0.1" for i in range(3)]
    launcher.assert_clean()


def test_c10d_numbers_nodes_by_host_with_the_endpoint_first(launcher):
    port = free_port()
    nodes = Nodes(launcher, "--nnodes", 3, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                  "--rdzv-id", "job")
    jobs = [nodes.start(None, "--local-addr", "zhost", "sh", "-c", SHOW)]
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, what="a leader")
    for host in ("node10", "node2"):
        jobs.append(nodes.start(None, "--local-addr", host, "sh", "-c", SHOW))
    results = finish(*jobs)
    assert [code for _, _, code in results] == [0, 0, 0]
    assert [out.split()[0] for out, _, _ in results] == ["0", "2", "1"]
    launcher.assert_clean()


def test_failure_on_one_node_is_told_on_both_and_reported_once(launcher, nodes):
    first = nodes.start(0, launcher.script(WAITING))
    second = nodes.start(1, "sh", "-c", "while [ ! -e up0 ]; do sleep 0.01; done; echo reason >&2; exit 9")
    begin = time.monotonic()
    (_, report, code), (_, short, other) = finish(first, second)
    assert time.monotonic() - begin < 5
    assert (code, other) == (9, 9)
    cause = r"root cause: rank 1 \(local rank 0\) on node 1 '.*', pid \d+: exit code 9"
    assert re.search(cause, report) and "| reason" in report
    assert re.fullmatch(f"reason\nlockstep run: the job failed; {cause}; the report is with node 0 '.*'\n", short)
    launcher.assert_clean()


@pytest.mark.parametrize("rank", [0, 1])
def test_node_that_cannot_start_its_workers_says_why_on_both(launcher, nodes, rank):
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))}
    jobs = [nodes.start(i, "--nproc-per-node", 100 if i == rank else 1, "sleep", "100",
                        **(few if i == rank else {})) for i in (0, 1)]
    for _, err, code in finish(*jobs):
        assert code == 1
        assert re.search(rf"the job failed: node {rank} '.*': starting rank \d+ \(local rank \d+\): .*: "
                         "Too many open files", err), err
    launcher.assert_clean()


def test_node_that_cannot_write_says_why_on_both(launcher, nodes):
    first = nodes.start(0, "sleep", "100")
    second = nodes.start(1, "sleep", "100", env={"TMPDIR": "/proc/1"})
    for _, err, code in finish(first, second):
        assert code == 1
        assert re.search(r"the job failed: node 1 '.*': making the folder '/proc/1/.*': ", err), err
    launcher.assert_clean()


def test_member_that_meets_the_job_before_waits_for_the_next_one(launcher, nodes):
    """A job that is started again at once at the same place, as schedulers do."""
    script = launcher.script("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITING)
    old = [nodes.start(rank, "--shutdown-timeout", 2, script) for rank in (0, 1)]
    launcher.up(2)
    os.kill(launcher.agent_of(old[1]), signal.SIGKILL)  # Node 0 ends, but its workers take 2 s.
    member = nodes.start(1, "true")
    assert finish(old[0])[0][2] == 1
    leader = nodes.start(0, "true")
    (_, err, code), (_, _, other) = finish(leader, member)
    assert (code, other) == (0, 0), err


def test_root_cause_reaches_the_launcher_around_the_launcher(launcher):
    inner = launcher.command("--nproc-per-node", 2, "sh", "-c", "[ $RANK = 1 ] && { echo inmost >&2; exit 6; }; sleep 100")
    done = launcher.run("--nproc-per-node", 1, *inner)
    assert done.returncode == 6
    report = done.stderr[done.stderr.index("root cause: rank 0"):]
    assert re.search(r"  message\n    \| rank 1 \(local rank 1\) on '.*', pid \d+: exit code 6: inmost", report)


def test_success_waits_for_all_nodes(launcher, nodes):
    first = nodes.start(0, "true")
    second = nodes.start(1, "sh", "-c", "sleep 1")
    begin = time.monotonic()
    assert [code for _, _, code in finish(first)] == [0]
    assert time.monotonic() - begin > 0.8
    assert [code for _, _, code in finish(second)] == [0]


def test_group_is_restarted_on_all_nodes(launcher, nodes):
    body = "echo $RANK.$TORCHELASTIC_RESTART_COUNT; [ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && exit 3; sleep 0.3"
    jobs = [nodes.start(rank, "--max-restarts", 1, "sh", "-c", body) for rank in (0, 1)]
    (out0, err0, code0), (out1, err1, code1) = finish(*jobs)
    assert (code0, code1) == (0, 0)
    assert out0.split()[-1] == "0.1" and out1.split() == ["1.0", "1.1"]
    assert "restart 1 of 1" in err0 and "restart 1 of 1" in err1
    launcher.assert_clean()


def test_interrupt_on_one_node_ends_all(launcher, nodes):
    script = launcher.script(WAITING)
    jobs = [nodes.start(rank, script) for rank in (0, 1)]
    launcher.up(2)
    jobs[1].send_signal(signal.SIGINT)
    (_, err0, code0), (_, _, code1) = finish(*jobs, timeout=10)
    assert (code0, code1) == (130, 130)
    assert "ended by SIGINT on node 1" in err0
    launcher.assert_clean()


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("which", ["launcher", "agent"])
def test_killed_launcher_is_named_by_the_other_node(launcher, nodes, victim, which):
    script = launcher.script(WAITING)
    jobs = [nodes.start(rank, script) for rank in (0, 1)]
    launcher.up(2)
    os.kill(jobs[victim].pid if which == "launcher" else launcher.agent_of(jobs[victim]), signal.SIGKILL)
    begin = time.monotonic()
    ((_, err, code),) = finish(jobs[1 - victim], timeout=5)
    assert time.monotonic() - begin < 5
    assert code == 1
    assert re.search(rf"node {victim} '.*' is lost", err), err
    jobs[victim].wait(5)
    launcher.assert_clean()


@pytest.mark.parametrize("victim", [0, 1])
def test_stopped_agent_is_lost_after_the_node_timeout(launcher, nodes, victim):
    script = launcher.script(WAITING)
    jobs = [nodes.start(rank, "--node-timeout", 3, script) for rank in (0, 1)]
    launcher.up(2)
    stop(launcher.agent_of(jobs[victim]))
    begin = time.monotonic()
    ((_, err, code),) = finish(jobs[1 - victim], timeout=6)
    assert 2 < time.monotonic() - begin < 5
    assert code == 1 and re.search(rf"node {victim} '.*' is lost: no sign of life for 3 s", err)


def test_same_rank_twice_is_an_error_on_both_that_names_it(launcher):
    nodes = Nodes(launcher)
    nodes.common = ("--nnodes", 3, *nodes.common[2:])
    jobs = [nodes.start(rank, "true") for rank in (0, 1, 1)]
    for _, err, code in finish(*jobs):
        assert code == 1 and "--node-rank 1 was given twice" in err


def test_different_node_counts_are_an_error_that_names_both(launcher, nodes):
    first = nodes.start(0, "true")
    second = launcher.start("--nnodes", 3, *nodes.common[2:], "--node-rank", 1, "true")
    for _, err, code in finish(first, second):
        assert code == 1
        assert "node 1" in err and "--nnodes 3" in err and "--nnodes 2" in err


def test_node_of_another_job_is_explained_on_both_and_the_right_one_is_waited_for(launcher, nodes):
    first = nodes.start(0, "--rdzv-id", "mine", "true")
    why = (f"node 1 '{os.uname().nodename}' came with --rdzv-id 'other', expected 'mine'; "
           "give all nodes of a job the same")
    for _ in range(2):
        ((_, err, code),) = finish(nodes.start(1, "--rdzv-id", "other", "true"))
        assert code == 1
        assert err == f"lockstep run: refused by the leading node at 127.0.0.1:{nodes.port}: {why}\n"
    second = nodes.start(1, "--rdzv-id", "mine", "true")
    (_, err, code), (_, _, other) = finish(first, second)
    assert (code, other) == (0, 0)
    assert err == f"lockstep run: turned away 127.0.0.1: {why}; still waiting for node 1 of 2\n"


def test_node_that_never_comes_is_named(launcher):
    nodes = Nodes(launcher)
    nodes.common = ("--nnodes", 4, *nodes.common[2:], "--join-timeout", 2)
    jobs = [nodes.start(rank, "true") for rank in (0, 2)]
    for _, err, code in finish(*jobs):
        assert code == 1
        assert "nodes 1, 3 of 4 did not come within 2 s" in err


def test_leader_that_never_comes_is_named(launcher, nodes):
    ((_, err, code),) = finish(nodes.start(1, "--join-timeout", 1, "true"))
    assert code == 1 and f"127.0.0.1:{nodes.port} did not come within 1 s" in err


def test_ctrl_c_while_waiting_for_nodes(launcher, nodes):
    for rank in (0, 1):
        job = nodes.start(rank, "true")
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        assert job.wait(5) == 130
    launcher.assert_clean()


def test_strangers_are_dropped_alone(launcher, nodes):
    first = nodes.start(0, "--nproc-per-node", 1, "sh", "-c", "sleep 1")
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", nodes.port)) == 0, what="a leader")
    silent = [socket.create_connection(("127.0.0.1", nodes.port)) for _ in range(20)]
    for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 4096, b"LOCKSTEP\0\0\0\2\xff\xff\xff\xff" + b"x" * 99,
                    b"LOCKSTEP\0\0\0\2\0\0\0\2[]", b"LOCKSTEP\0\0\0\x63"):
        with socket.create_connection(("127.0.0.1", nodes.port)) as stranger:
            stranger.sendall(garbage)
            stranger.settimeout(3)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    second = nodes.start(1, "--nproc-per-node", 1, "sh", "-c", "sleep 1")
    (_, err, code), (_, _, other) = finish(first, second)
    assert (code, other) == (0, 0)
    assert "turned away 127.0.0.1: the other side is not a lockstep launcher" in err
    for stranger in silent:
        stranger.close()


def test_port_of_another_program_is_a_clear_error(launcher, nodes):
    with socket.create_server(("127.0.0.1", nodes.port)) as other:
        ((_, err, code),) = finish(nodes.start(0, "true"))
        assert code == 2 and "the port is taken by another program" in err
        member = nodes.start(1, "true")
        connection, _ = other.accept()
        connection.sendall(b"220 ready\r\n")
        ((_, err, code),) = finish(member)
        assert code == 1 and "not a lockstep launcher" in err


def test_a_node_too_many_is_refused(launcher, nodes):
    script = launcher.script(WAITING)
    jobs = [nodes.start(rank, script) for rank in (0, 1)]
    launcher.up(2)
    ((_, err, code),) = finish(nodes.start(1, "true"))
    assert code == 1 and "all 2 nodes are here already" in err
    jobs[0].terminate()
    assert [code for _, _, code in finish(*jobs)] == [143, 143]
    launcher.assert_clean()
