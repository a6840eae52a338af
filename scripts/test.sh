#!/usr/bin/env bash
# `make test`: builds three ways and runs every test, the quick ones first.
#
# A failing phase does not stop the next one; the last line and the exit code say how all of it went.
source "$(dirname "$0")/common.sh"

start=$SECONDS
failed=()
phase() { in_phase "$@" || failed+=("$1"); }

# ctest in one build tree. Tests that cannot share the machine are marked RUN_SERIAL in CMake.
tests_in() {
  local preset=$1
  shift
  local without_gpu=()
  [[ -e /dev/nvidiactl ]] || without_gpu=(-LE gpu)
  ctest --preset "$preset" -j "$(nproc)" --no-tests=error "${without_gpu[@]}" "$@"
}

in_phase "build (release)" build release || die "the release build; nothing was tested"
phase "layers and unit tests" tests_in release -L unit
phase "build (address and undefined behaviour sanitizers, torch-free layers)" build asan
phase "the same layers under these sanitizers" tests_in asan
phase "build (thread sanitizer, torch-free layers)" build tsan
phase "the same layers under it" tests_in tsan
phase "tests with several ranks, and of whole jobs" tests_in release -L 'ranks|system|parity|python|conformance|gpu'

if ((${#failed[@]} == 0)); then
  say "make test: all passed in $((SECONDS - start)) s"
else
  printf '== make test: FAILED after %d s: %s\n' $((SECONDS - start)) "$(IFS=';'; echo "${failed[*]}")"
  exit 1
fi
