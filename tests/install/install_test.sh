#!/usr/bin/env bash
# install_test.sh BUILD CONSUMER: installs BUILD to a folder of its own, then configures, builds and
# runs a copy of CONSUMER that is given nothing but that prefix.
set -euo pipefail
build=$1 consumer=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
expect() {
  local expected=$1 got
  shift
  got=$("$@" | sort) || fail "$* ended with $?"
  [[ $got == "$expected" ]] || fail "$* printed '$got', expected '$expected'"
}

cmake --install "$build" --prefix "$prefix" >/dev/null
diff <(cd "$prefix/include" && find . -name '*.h' -printf '%P\n' | sort) \
  <(grep '^lockstep/' "$consumer/../../../cmake/public_headers.txt" | sort) || fail "other headers were installed"
! grep -rIl "$build" "$prefix/lib/cmake" "$prefix/include" || fail "the files above name the build folder"

# What a developer's shell may have set must not help.
unset LIBTORCH_ROOT LOCKSTEP_PYTHON RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
if command -v ccache >/dev/null; then
  # Paths relative to the folder, so that the next run finds what this one compiled.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
fi
cp -r "$consumer" "$work/consumer"
cd "$work"
cmake -S consumer -B out -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >configure.log 2>&1 ||
  { cat configure.log; fail "configuring the consumer"; }
cmake --build out >build.log 2>&1 || { cat build.log; fail "building the consumer"; }

expect "rank 0 of 1: right" out/consumer
expect $'rank 0 of 2: right\nrank 1 of 2: right' \
  "$prefix/bin/lockstep" run --nproc-per-node 2 out/consumer
