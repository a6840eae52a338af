"""--log-dir, --redirects, --tee and the filter: torchrun's layout, private files."""

import os
import re
import resource
import signal
import stat
import subprocess

import pytest

BOTH = 'echo "out $RANK"; echo "err $RANK" >&2'


def files_below(folder):
    """{path below the run's own folder: content}"""
    (run,) = folder.iterdir()
    return {str(p.relative_to(run)): p.read_text() for p in run.rglob("*") if p.is_file()}


def test_log_dir_alone_keeps_everything_and_still_shows_it(launcher):
    logs = launcher.folder / "logs" / "deep"
    done = launcher.run("--nproc-per-node", 2, "--log-dir", logs, "sh", "-c", BOTH)
    assert sorted(done.stdout.splitlines()) == ["out 0", "out 1"]
    assert sorted(done.stderr.splitlines()) == ["err 0", "err 1"]
    assert files_below(logs) == {
        "attempt_0/0/stdout.log": "out 0\n", "attempt_0/0/stderr.log": "err 0\n",
        "attempt_0/1/stdout.log": "out 1\n", "attempt_0/1/stderr.log": "err 1\n"}
    launcher.assert_clean(0)


def test_logs_are_private(launcher):
    logs = launcher.folder / "logs"
    launcher.run("--log-dir", logs, "-r", "3", "sh", "-c", BOTH, umask=0)
    (run,) = logs.iterdir()
    for path in [run, *run.rglob("*")]:
        assert stat.S_IMODE(os.stat(path).st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_run_id_names_the_folder(launcher):
    logs = launcher.folder / "logs"
    launcher.run("--log-dir", logs, "--rdzv-id", "my/job", "true")
    (run,) = logs.iterdir()
    assert run.name.startswith("my_job_")


def test_redirects_by_rank(launcher):
    logs = launcher.folder / "logs"
    done = launcher.run("--nproc-per-node", 2, "--log-dir", logs, "-r", "0:1,1:2", "sh", "-c", BOTH)
    assert done.stdout == "out 1\n" and done.stderr == "err 0\n"
    assert files_below(logs) == {"attempt_0/0/stdout.log": "out 0\n", "attempt_0/1/stderr.log": "err 1\n"}


def test_redirected_stderr_is_in_the_report(launcher):
    logs = launcher.folder / "logs"
    done = launcher.run("--log-dir", logs, "-r", "3", "sh", "-c", "echo reason >&2; exit 3")
    assert done.returncode == 3
    assert "| reason" in done.stderr
    (path,) = logs.rglob("stderr.log")
    assert f"log: {path}" in done.stderr


def test_tee_prefixes_lines_on_the_console_only(launcher):
    logs = launcher.folder / "logs"
    done = launcher.run("--nproc-per-node", 2, "--log-dir", logs, "--role", "r", "-t", "3", "sh", "-c",
                        BOTH + "; printf 'no newline'")
    assert sorted(done.stdout.splitlines()) == [
        "[r0]:no newline", "[r0]:out 0", "[r1]:no newline", "[r1]:out 1"]
    assert sorted(done.stderr.splitlines()) == ["[r0]:err 0", "[r1]:err 1"]
    assert files_below(logs)["attempt_0/0/stdout.log"] == "out 0\nno newline"


def test_tee_needs_no_log_dir_and_leaves_nothing(launcher):
    done = launcher.run("--tee", "1", "sh", "-c", BOTH)
    assert done.stdout == "[default0]:out 0\n" and done.stderr == "err 0\n"
    launcher.assert_clean(0)


def test_redirects_without_log_dir_keep_the_files_and_say_where(launcher):
    done = launcher.run("--redirects", "3", "sh", "-c", BOTH)
    assert done.stdout == ""
    (kept,) = launcher.temporary.iterdir()
    assert done.stderr == f"lockstep run: logs go to {kept}\n"
    assert (kept / "attempt_0" / "0" / "stdout.log").read_text() == "out 0\n"


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_prefix_template(launcher, how):
    template = "<${hostname}|${role_name}|$rank|${local_rank}|${unknown}|$$> "
    flags = ["--log-line-prefix-template", template] if how == "flag" else []
    variable = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template} if how == "variable" else {}
    done = launcher.run(*flags, "--tee", "1", "echo", "x", env=variable)
    assert done.stdout == f"<{os.uname().nodename}|default|0|0|${{unknown}}|$> x\n"


def test_filter_shows_only_some_ranks(launcher):
    logs = launcher.folder / "logs"
    done = launcher.run("--nproc-per-node", 3, "--local-ranks-filter", "1", "sh", "-c", BOTH)
    assert done.stdout == "out 1\n" and done.stderr == "err 1\n"
    done = launcher.run("--nproc-per-node", 3, "--local-ranks-filter", "1", "--tee", "3", "--log-dir", logs,
                        "sh", "-c", BOTH)
    assert done.stdout == "[default1]:out 1\n" and done.stderr == "[default1]:err 1\n"
    assert files_below(logs)["attempt_0/0/stdout.log"] == "out 0\n"


def test_hidden_rank_still_has_its_stderr_in_the_report(launcher):
    done = launcher.run("--nproc-per-node", 2, "--local-ranks-filter", "0", "sh", "-c",
                        "[ $RANK = 0 ] && sleep 100; echo hidden reason >&2; exit 3")
    assert done.returncode == 3 and "| hidden reason" in done.stderr


def test_attempts_have_folders_of_their_own(launcher):
    logs = launcher.folder / "logs"
    done = launcher.run("--max-restarts", 1, "--log-dir", logs, "sh", "-c",
                        "echo $TORCHELASTIC_RESTART_COUNT; exit $((1 - $TORCHELASTIC_RESTART_COUNT))")
    assert done.returncode == 0
    files = files_below(logs)
    assert files["attempt_0/0/stdout.log"] == "0\n" and files["attempt_1/0/stdout.log"] == "1\n"


def test_much_output_arrives_complete_and_in_order(launcher):
    done = launcher.run("--nproc-per-node", 2, "--tee", "3", "sh", "-c", "seq 20000; seq 20000 >&2", timeout=60)
    for text in (done.stdout, done.stderr):
        for rank in "01":
            lines = [l.split(":")[1] for l in text.splitlines() if l.startswith(f"[default{rank}]")]
            assert lines == [str(i) for i in range(1, 20001)]


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "lockstep", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


needs_mount = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_mount
@pytest.mark.parametrize("redirects", ["1", "3"])
def test_worker_that_fails_on_a_full_disk_is_explained(launcher, small_disk, redirects):
    script = launcher.script("for i in range(20000): print('line', i)")
    done = launcher.run("--nproc-per-node", 2, "--log-dir", small_disk, "-r", redirects, script, timeout=20)
    assert done.returncode in (1, 120)  # Python's, when it cannot print, at once or at its end.
    (root,) = re.findall(r"root cause: rank (\d)", done.stderr)
    (path,) = small_disk.rglob(f"{root}/stdout.log")
    assert f"  | No space left on device for the log '{path}'\n" in done.stderr
    launcher.assert_clean(0)


@needs_mount
def test_lost_output_of_a_good_job_is_told_once(launcher, small_disk):
    done = launcher.run("--nproc-per-node", 2, "--log-dir", small_disk, "-r", "3", "sh", "-c",
                        "seq 20000; exit 0", timeout=20)
    assert done.returncode == 0
    (path,) = small_disk.rglob("0/stdout.log")
    assert done.stderr == f"lockstep run: No space left on device for the log '{path}'\n"


@needs_mount
@pytest.mark.parametrize("flags", [[], ["-t", "3"]])
def test_copied_output_goes_on_when_the_disk_is_full(launcher, small_disk, flags):
    done = launcher.run("--log-dir", small_disk, *flags, "seq", "20000", timeout=20)
    assert done.returncode == 0 and done.stdout.endswith("20000\n")
    (path,) = small_disk.rglob("stdout.log")
    assert done.stderr == f"lockstep run: the log '{path}' ends here: No space left on device\n"


@pytest.mark.parametrize("flags", [[], ["-t", "3"]])
def test_copied_output_goes_on_when_a_log_gets_too_large(launcher, flags):
    """As under `ulimit -f`. The signal for it ends workers as before, and not the launcher."""
    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    logs = launcher.folder / "logs"
    done = launcher.run("--log-dir", logs, *flags, "seq", "20000", timeout=20, preexec_fn=limit_files)
    assert done.returncode == 0 and done.stdout.endswith("20000\n")
    (path,) = logs.rglob("stdout.log")
    assert done.stderr == f"lockstep run: the log '{path}' ends here: File too large\n"
    done = launcher.run("sh", "-c", "seq 20000 > out", timeout=20, preexec_fn=limit_files)
    assert done.returncode == 128 + signal.SIGXFSZ
