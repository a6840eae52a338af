#!/usr/bin/env bash
# `make test`: installs what is missing, builds three ways and runs the tests, the quick ones first. What takes longer
# (labels bench and long) is for `make check`.
#
# A failing phase does not stop the next one; the last line and the exit code say how all of it went.
source "$(dirname "$0")/common.sh"

start=$SECONDS
failed=()
phase() { in_phase "$@" || failed+=("$1"); }
forget_second_tries

# The thread sanitizer not with clang: clang's does not see accesses of 32 bytes, and sums in shared memory make those.
build_sanitizers() {
  local status=0
  renice -n 5 "$BASHPID" >/dev/null
  in_phase "build (address and undefined behaviour sanitizers, torch-free layers)" with_clang build asan || status=1
  in_phase "build (thread sanitizer, torch-free layers)" build tsan || status=1
  return "$status"
}

in_phase "installation (Debian packages)" scripts/setup.sh test packages || die "the installation; nothing was tested"
log=build/sanitizers.log
say "builds with sanitizers: beside what follows; see $log"  # pip needs one core.
set -m  # A process group of its own, which ends with this script.
build_sanitizers >"$log" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -- -$beside 2>/dev/null || true' EXIT
in_phase "installation (torch)" scripts/setup.sh test venv || die "the installation; nothing was tested"
in_phase "build (release)" build release || die "the release build; nothing was tested"
# Before the tests: compilers beside them would make those with time limits fail.
phase "builds with sanitizers" wait "$beside"
grep -E '^== |error|FAILED' "$log" || true
# One more than there are cores: one of these tests mostly waits.
phase "layers and unit tests" tests_in release "$(($(nproc) + 1))" -L unit
phase "tests with several ranks, and of whole jobs" \
  tests_twice_in release "$(($(nproc) + 1))" -L 'ranks|system|parity|python|conformance|gpu'
# Two more than there are cores: the tests of net and launch wait for a large part of their time, and begin first.
at_once=$(($(nproc) + 2))
phase "the torch-free layers under the address and undefined behaviour sanitizers" tests_twice_in asan "$at_once"
phase "the same layers under the thread sanitizer" tests_twice_in tsan "$at_once"

say_second_tries
if ((${#failed[@]} == 0)); then
  say "make test: all passed in $((SECONDS - start)) s"
else
  printf '== make test: FAILED after %d s: %s\n' $((SECONDS - start)) "$(IFS=';'; echo "${failed[*]}")"
  exit 1
fi
