# Shared by the scripts beside it; sourced, never run. Leaves the caller in the repository root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Compilers that may run at once: one per core, and 2 GB of memory for each, since joined files that
# include torch take 1.8 GB.
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
