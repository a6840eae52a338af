# Shared by the scripts beside it; sourced, never run. Leaves the caller in the repository root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Compilers that may run at once: one per core, and 2 GB of memory for each, since joined files that
# include torch take 1.5 GB.
jobs() {
  local cores kilobytes limit
  cores=$(nproc)
  kilobytes=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1024 < kilobytes)); then
    kilobytes=$((limit / 1024))
  fi
  local by_memory=$((kilobytes / 2000000))
  local n=$((cores < by_memory ? cores : by_memory))
  echo $((n > 0 ? n : 1))
}

# The Python that runs the test tools; setup.sh puts torch and pytest there unless told otherwise.
test_python() {
  if [[ -n ${LOCKSTEP_PYTHON:-}${LIBTORCH_ROOT:-} ]]; then
    echo "${LOCKSTEP_PYTHON:-python3}"
  else
    echo "$PWD/.venv/bin/python"
  fi
}

# configure PRESET. The two variables are passed on even when empty, so that a value cached by an
# earlier run does not outlive the variable.
configure() {
  local preset=$1 log
  log=$(mktemp)
  if ! cmake --preset "$preset" -DLIBTORCH_ROOT="${LIBTORCH_ROOT:-}" \
    -DLOCKSTEP_PYTHON="${LOCKSTEP_PYTHON:-}" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "configuring the preset '$preset'; the reason is above"
  fi
  grep -E '^-- (LibTorch|CUDA parts)' "$log" || true
  rm -f "$log"
}

# build PRESET [TARGET...]: configures and builds.
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build --preset "$preset" -j "$(jobs)" ${1:+--target "$@"}
}

# in_phase NAME COMMAND...: runs it, prints how long it took, and hands its status on.
in_phase() {
  local name=$1 start=$SECONDS status=0
  shift
  say "$name"
  "$@" || status=$?
  if ((status == 0)); then
    say "$name: $((SECONDS - start)) s"
  else
    say "$name: FAILED after $((SECONDS - start)) s (exit code $status)"
  fi
  return "$status"
}

# with_clang COMMAND...: runs it with clang as the compiler, if clang can link a sanitizer: it compiles such code twice
# as fast as g++. A tree that is configured already keeps its compiler.
with_clang() (
  if [[ -z ${CXX:-} ]] && clang++-19 -fsanitize=address,undefined -x c++ -o /dev/null - <<<'int main() {}' 2>/dev/null; then
    export CC=clang-19 CXX=clang++-19
  fi
  "$@"
)

# Where tests that passed at the second try are named, a line each.
second_tries=build/passed_at_second_try.txt
forget_second_tries() { mkdir -p build && : >"$second_tries"; }
say_second_tries() {
  local name
  while read -r name; do
    say "FAILED ONCE, passed at the second try: $name"
  done <"$second_tries"
}

# tests_in PRESET AT_ONCE [FLAG...]: ctest in one build tree. Tests that cannot share the machine are marked in CMake.
tests_in() {
  local preset=$1 at_once=$2
  shift 2
  local without_gpu=()
  [[ -e /dev/nvidiactl ]] || without_gpu=(-LE gpu)
  ctest --preset "$preset" -j "$at_once" --no-tests=error "${without_gpu[@]}" "$@"
}

# tests_twice_in ...: the same for tests with real processes and real time limits, which a busy machine can make
# late. One that fails is run once more; if that passes, say_second_tries names it, so that it gets mended.
# What a sanitizer reports is a fault, however often it is seen.
tests_twice_in() {
  local log=build/tests.$1.log status=0
  tests_in "$@" --repeat until-pass:2 | tee "$log" || status=$?
  local number
  sed -nE 's/^.*Test +#([0-9]+): .*\*\*\*.*/\1/p' "$log" | sort -u | while read -r number; do
    sed -nE "s/^.*Test +#$number: (.*[^ .]) \.*   Passed .*/\1 ($1)/p" "$log"
  done >>"$second_tries"
  if grep -qE 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error: ' "$log"; then
    say "a sanitizer has reported something: see above, and $log"
    status=1
  fi
  return "$status"
}
