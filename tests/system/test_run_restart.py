"""--max-restarts starts the whole group again."""

import re


def test_whole_group_is_restarted_until_it_succeeds(launcher):
    done = launcher.run(
        "--nproc-per-node", 2, "--max-restarts", 3, "sh", "-c",
        'touch run$RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; '
        'while [ ! -e run0.$TORCHELASTIC_RESTART_COUNT ]; do :; done; [ $RANK = 1 ] && exit 6; sleep 100')
    assert done.returncode == 0
    names = sorted(p.name for p in launcher.folder.glob("run*"))
    assert names == [f"run{rank}.{attempt}" for rank in "01" for attempt in "012"]
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(rf"lockstep run: rank 1 .* pid \d+: exit code 6; restarting all workers "
                            rf"\(restart {number} of 3\)", line)
    launcher.assert_clean(0)


def test_restarts_run_out(launcher):
    done = launcher.run("--nproc-per-node", 2, "--max-restarts", 2, "sh", "-c",
                        "echo $TORCHELASTIC_RESTART_COUNT; exit 7")
    assert done.returncode == 7
    assert done.stderr.count("restarting all workers") == 2
    assert "root cause" in done.stderr.splitlines()[-2]
    launcher.assert_clean(0)


def test_each_attempt_has_a_new_store(launcher):
    done = launcher.run("--max-restarts", 1, "sh", "-c",
                        "echo $MASTER_PORT; exit $((1 - $TORCHELASTIC_RESTART_COUNT))")
    first, second = done.stdout.split()
    assert first != second


def test_codes_that_no_restart_follows(launcher):
    flags = ["--max-restarts", 3, "--no-restart-on", "2,5"]
    done = launcher.run(*flags, "sh", "-c", "exit 5")
    assert done.returncode == 5 and "restarting" not in done.stderr
    done = launcher.run(*flags, "sh", "-c", "exit 6")
    assert done.returncode == 6 and done.stderr.count("restarting all workers") == 3
    done = launcher.run("--no-restart-on", "two", "true")
    assert done.returncode == 2 and "--no-restart-on is 'two'" in done.stderr
    launcher.assert_clean(0)
