"""Exit codes, the report, and wrong usage."""

import os
import re
import resource
import subprocess
import time

import pytest
from conftest import BIN, DAEMON, WAITING


def test_success_is_0_and_silent(launcher):
    done = launcher.run("--nproc-per-node", 2, "/bin/true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    launcher.assert_clean(0)


def test_two_ranks_of_true_take_milliseconds(launcher):
    times = []
    for _ in range(10):
        begin = time.monotonic()
        assert launcher.run("--nproc-per-node", 2, "/bin/true").returncode == 0
        times.append(time.monotonic() - begin)
    assert min(times) < 0.25


def test_exit_code_is_that_of_the_first_worker_that_failed(launcher):
    done = launcher.run("--nproc-per-node", 3, "sh", "-c", "[ $RANK = 1 ] && exit 42; sleep 100")
    assert done.returncode == 42
    launcher.assert_clean()


def test_signal_is_named_and_becomes_128_plus_n(launcher):
    done = launcher.run("--nproc-per-node", 2, "sh", "-c", "[ $RANK = 1 ] && kill -SEGV $$; sleep 100")
    assert done.returncode == 128 + 11
    assert "SIGSEGV (signal 11)" in done.stderr
    launcher.assert_clean()


def test_report_comes_last_and_tells_the_root_cause(launcher):
    script = launcher.script(
        """
import os, sys, time
if os.environ["RANK"] == "1":
    for i in range(100):
        print("noise", i, file=sys.stderr)
    raise RuntimeError("the reason")
sys.stderr.write("waiting, in the middle of a line")
time.sleep(100)
"""
    )
    done = launcher.run("--nproc-per-node", 3, script, stderr=subprocess.STDOUT)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("lockstep run:"))
    report = lines[start:]
    assert len(report) <= 24, "one screen"
    text = "\n".join(report)
    assert re.search(r"root cause: rank 1 \(local rank 1\) on '[^']+', pid \d+: exit code 1", text)
    assert "| RuntimeError: the reason" in text
    assert "noise 99" in text and "noise 10\n" not in text
    assert "stopped by lockstep run: rank 0, 2" in text
    assert "--log-dir" in report[-1]
    launcher.assert_clean()


def test_report_shows_the_workers_error_file(launcher):
    script = launcher.script(
        """
import json, os
note = {"message": {"message": "Odd: \\x1b[31mtext", "extraInfo": {"py_callstack": "frame A\\nframe B",
        "timestamp": "1"}}}
json.dump(note, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
os._exit(5)
"""
    )
    done = launcher.run(script)
    assert done.returncode == 5
    assert "| Odd: [31mtext" in done.stderr, "escape codes are removed"
    assert "| frame B" in done.stderr
    launcher.assert_clean(0)


@pytest.mark.parametrize("content", ["not json", "[1, 2", '{"message": 5}', pytest.param("x" * (2 << 20), id="2 MiB")])
def test_garbage_in_an_error_file_is_tolerated(launcher, content):
    (launcher.folder / "content").write_text(content)
    done = launcher.run("sh", "-c", 'cp content "$TORCHELASTIC_ERROR_FILE"; echo why >&2; exit 3')
    assert done.returncode == 3
    assert "| why" in done.stderr
    launcher.assert_clean(0)


def test_pipe_in_the_error_files_place_does_not_block(launcher):
    assert launcher.run("sh", "-c", 'mkfifo "$TORCHELASTIC_ERROR_FILE"; exit 3').returncode == 3
    launcher.assert_clean(0)


def test_worker_that_ignores_sigterm_is_killed_after_the_grace(launcher):
    script = launcher.script("import os, signal, sys, time\n"
                             "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITING)
    begin = time.monotonic()
    done = launcher.run(
        "--nproc-per-node", 2, "--shutdown-timeout", "0.5", "sh", "-c",
        f'[ $RANK = 0 ] && exec python3 {script}; while [ ! -e up0 ]; do sleep 0.01; done; exit 9')
    assert done.returncode == 9
    assert 0.5 <= time.monotonic() - begin < 3
    assert re.search(r"rank 0 \(pid \d+\) did not end within 500 ms: killed", done.stderr)
    launcher.assert_clean()


def test_more_workers_than_the_usual_descriptor_limit_allows(launcher):
    done = launcher.run("--nproc-per-node", 300, "--tee", "3", "sh", "-c", "echo $RANK",
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)))
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == sorted(f"[default{i}]:{i}" for i in range(300))
    launcher.assert_clean(0)


def test_worker_that_cannot_be_started_is_named(launcher):
    done = launcher.run("--nproc-per-node", 100, "sleep", "100",
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert done.returncode == 1
    assert re.search(r"starting rank \d+ \(local rank \d+\): .*: Too many open files", done.stderr)
    launcher.assert_clean(0)


def test_nothing_is_left_after_a_normal_end(launcher):
    script = launcher.script(DAEMON)
    assert launcher.run("--nproc-per-node", 2, script).returncode == 0
    launcher.assert_clean(0)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "no program given"),
        (["--bogus"], "unknown flag --bogus"),
        (["--nproc-per-nod", "2", "true"], "did you mean --nproc-per-node?"),
        (["--nproc-per-node"], "--nproc-per-node needs a value"),
        (["--nproc-per-node", "0", "true"], "--nproc-per-node is '0'"),
        (["--nproc-per-node", "-1", "true"], "--nproc-per-node is '-1'"),
        (["--nproc-per-node", "abc", "true"], "--nproc-per-node is 'abc'"),
        (["--nproc-per-node", "100000", "true"], "--nproc-per-node is '100000'"),
        (["--nnodes", "1:2", "true"], "not yet"),
        (["--rdzv-conf", "timeout=1", "true"], "--rdzv-conf: this flag of torchrun is not yet"),
        (["--rdzv-backend", "etcd", "true"], "not yet"),
        (["--start_method", "fork", "true"], "--start_method"),
        (["--max-restarts", "x", "true"], "--max-restarts is 'x'"),
        (["--master-port", "70000", "true"], "--master-port is '70000'"),
        (["--tee", "4", "true"], "--tee is '4'"),
        (["-r", "5:1", "true"], "--redirects is '5:1', expected local ranks from 0 to 0"),
        (["--nproc-per-node", "2", "--local-ranks-filter", "7", "true"],
         "--local-ranks-filter is '7', expected local ranks from 0 to 1"),
        (["--signals-to-handle", "SIGNOPE", "true"], "SIGNOPE"),
        (["--log-dir", "/dev/null/x", "true"], "--log-dir is '/dev/null/x'"),
        (["no-such-program"], "'no-such-program' is not in $PATH"),
        (["/no/such/program"], "No such file or directory"),
        (["no-such-script.py"], "No such file or directory"),
        (["/tmp"], "is a directory"),
        (["/etc/passwd"], "is not executable"),
        (["--standalone", "--nnodes", "2", "true"], "--standalone"),
        (["--nnodes", "2", "--node-rank", "2", "true"], "--node-rank is '2'"),
    ],
)
def test_wrong_usage_is_2_and_names_the_culprit(launcher, arguments, expected):
    done = launcher.run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("lockstep run: ") and expected in done.stderr
    assert done.stdout == ""
    launcher.assert_clean(0)


def test_program_that_cannot_be_executed_after_all(launcher):
    program = launcher.script("\x7fELF nonsense", "broken")
    program.chmod(0o755)
    done = launcher.run(program)
    assert done.returncode == 126
    assert "cannot execute" in done.stderr and "Exec format error" in done.stderr


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has GPUs")
def test_gpu_flags_without_gpus_are_errors(launcher):
    assert "no GPU" in launcher.run("--gpu-ids", "1,6,3", "true").stderr
    assert "no usable GPU" in launcher.run("--nproc-per-node", "gpu", "true").stderr


def test_closed_or_broken_stdout_and_stderr_do_no_harm(launcher):
    for closing in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "| true", ">/dev/full", "2>/dev/full"):
        shell = f"{BIN}/lockstep run --nproc-per-node 2 --tee 3 sh -c 'seq 3000; seq 3000 >&2' {closing}"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", shell], env=launcher.environment(),
            cwd=launcher.folder, capture_output=True, timeout=20)
        assert done.returncode == 0, closing
    launcher.assert_clean()


def test_reader_that_never_reads_cannot_hold_up_the_end(launcher):
    job = launcher.start("--tee", "3", "sh", "-c", "yes | head -c 3000000; touch up0; exit 3")
    time.sleep(0.5)  # The worker waits for the reader: that is fine.
    assert not (launcher.folder / "up0").exists()
    job.terminate()
    assert job.wait(10) == 128 + 15
    launcher.assert_clean(0)


def test_siblings_are_commands(launcher):
    done = subprocess.run([BIN / "lockstep", "no-such-command"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no command 'no-such-command'" in done.stderr and "run" in done.stderr
    assert "HINT: to start a program on several ranks: lockstep run no-such-command\n" in done.stderr
    done = subprocess.run([BIN / "lockstep", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("lockstep ")


@pytest.mark.parametrize("written, meant", [("trian", "train"), ("rnu", "run"), ("inspct", "inspect")])
def test_command_that_does_not_exist_leads_to_the_nearest_one(written, meant):
    done = subprocess.run([BIN / "lockstep", written, "--epochs", "3"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"lockstep: there is no command '{written}'\n")
    assert done.stderr.endswith(f"HINT: did you mean: lockstep {meant}\n")
