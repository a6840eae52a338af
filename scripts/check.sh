#!/usr/bin/env bash
# `make check`: what takes too long for `make test`: clang, clang-tidy, and AddressSanitizer with
# UndefinedBehaviorSanitizer over the parts that use torch.
source "$(dirname "$0")/common.sh"

# LibTorch keeps some memory for the life of the process, so leaks are looked for in the torch-free
# layers only (`make test`). It is not instrumented: a container may be filled there and read here.
export ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0:${ASAN_OPTIONS:-}

failed=()
phase() { in_phase "$@" || failed+=("$1"); }

phase "build (clang)" build clang
phase "unit tests (clang)" ctest --test-dir build/clang -L unit -j "$(nproc)" --no-tests=error \
  --output-on-failure
phase "lint" scripts/lint.sh
phase "build (address and undefined behaviour sanitizers, with torch)" build asan-torch
phase "unit tests and ranks under these sanitizers" ctest --test-dir build/asan-torch \
  -L 'unit|ranks' -LE gpu -j "$(nproc)" --no-tests=error --output-on-failure

if ((${#failed[@]} > 0)); then
  die "make check: $(IFS=';'; echo "${failed[*]}")"
fi
say "make check: all passed in $SECONDS s"
