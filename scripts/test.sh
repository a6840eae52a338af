#!/usr/bin/env bash
# `make test`: builds three ways and runs every test but benchmarks beside their peers, the quick ones first.
#
# A failing phase does not stop the next one; the last line and the exit code say how all of it went.
source "$(dirname "$0")/common.sh"

start=$SECONDS
failed=()
phase() { in_phase "$@" || failed+=("$1"); }
once=build/passed_at_second_try.txt  # The names of such tests, a line each.
mkdir -p build && : >"$once"

# tests_in PRESET AT_ONCE [FLAG...]: ctest in one build tree. Tests that cannot share the machine are marked in CMake.
tests_in() {
  local preset=$1 at_once=$2
  shift 2
  local without_gpu=()
  [[ -e /dev/nvidiactl ]] || without_gpu=(-LE gpu)
  ctest --preset "$preset" -j "$at_once" --no-tests=error "${without_gpu[@]}" "$@"
}

# tests_twice_in ...: the same for tests with real processes and real time limits, which a busy machine can make
# late. One that fails is run once more; if that passes, the end of `make test` names it, so that it gets mended.
# What a sanitizer reports is a fault, however often it is seen.
tests_twice_in() {
  local log=build/tests.$1.log status=0
  tests_in "$@" --repeat until-pass:2 | tee "$log" || status=$?
  local number
  sed -nE 's/^.*Test +#([0-9]+): .*\*\*\*.*/\1/p' "$log" | sort -u | while read -r number; do
    sed -nE "s/^.*Test +#$number: (.*[^ .]) \.*   Passed .*/\1 ($1)/p" "$log"
  done >>"$once"
  if grep -qE 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error: ' "$log"; then
    say "a sanitizer has reported something: see above, and $log"
    status=1
  fi
  return "$status"
}

# clang compiles code with sanitizers in half of g++'s time. Not for ThreadSanitizer: clang's does not look at
# accesses of 32 bytes, which sums in shared memory consist of. A tree that was configured keeps its compiler.
build_asan() (
  if [[ -z ${CXX:-} ]] && clang++-19 -fsanitize=address,undefined -x c++ -o /dev/null - <<<'int main() {}' 2>/dev/null; then
    export CC=clang-19 CXX=clang++-19
  fi
  build asan
)

build_sanitizers() {
  renice -n 5 "$BASHPID" >/dev/null
  in_phase "build (address and undefined behaviour sanitizers, torch-free layers)" build_asan
  in_phase "build (thread sanitizer, torch-free layers)" build tsan
}

in_phase "build (release)" build release || die "the release build; nothing was tested"
log=build/sanitizers.log
say "builds with sanitizers: beside the tests that follow; see $log"
set -m  # A process group of its own, which ends with this script.
build_sanitizers >"$log" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -- -$beside 2>/dev/null || true' EXIT
phase "layers and unit tests" tests_in release "$(nproc)" -L unit
# One more than there are cores: one of these tests mostly waits.
phase "tests with several ranks, and of whole jobs" \
  tests_twice_in release "$(($(nproc) + 1))" -L 'ranks|system|parity|python|conformance|gpu'
phase "builds with sanitizers" wait "$beside"
grep -E '^== |error|FAILED' "$log" || true
# Two more than there are cores: the tests of net and launch wait for a large part of their time, and begin first.
at_once=$(($(nproc) + 2))
phase "the torch-free layers under the address and undefined behaviour sanitizers" tests_twice_in asan "$at_once"
phase "the same layers under the thread sanitizer" tests_twice_in tsan "$at_once"

while read -r name; do
  say "FAILED ONCE, passed at the second try: $name"
done <"$once"
if ((${#failed[@]} == 0)); then
  say "make test: all passed in $((SECONDS - start)) s"
else
  printf '== make test: FAILED after %d s: %s\n' $((SECONDS - start)) "$(IFS=';'; echo "${failed[*]}")"
  exit 1
fi
