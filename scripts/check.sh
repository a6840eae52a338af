#!/usr/bin/env bash
# `make check`: what takes too long for `make test`: clang, long tests, benchmarks beside their peers, clang-tidy,
# the Python package from nothing, and AddressSanitizer with UndefinedBehaviorSanitizer over the parts that use torch.
source "$(dirname "$0")/common.sh"

# LibTorch keeps some memory for the life of the process, so leaks are looked for in the torch-free
# layers only (`make test`). It is not instrumented: a container may be filled there and read here. On
# ARM its oneDNN deletes an object of its own as one of another type. A test asks for more memory than
# there is.
export ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0:new_delete_type_mismatch=0:allocator_may_return_null=1:${ASAN_OPTIONS:-}

# As a user does it, in a virtual environment that sees the torch of the test Python.
install_package() {
  local venv=build/check-venv
  rm -rf "$venv" build/wheel-*
  "$(test_python)" -m venv "$venv"
  "$(test_python)" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' \
    >"$(echo "$venv"/lib/python*/site-packages)/torch.pth"
  "$venv/bin/pip" install --no-index --disable-pip-version-check ./python
  (cd "$venv" && bin/python -c 'import lockstep; print("lockstep", lockstep.__version__)')
}

failed=()
phase() { in_phase "$@" || failed+=("$1"); }
forget_second_tries

phase "build (clang)" build clang
phase "unit tests (clang)" ctest --test-dir build/clang -L unit -j "$(nproc)" --no-tests=error \
  --output-on-failure
phase "benchmarks beside their peers" ctest --test-dir build/clang -L bench -j "$(nproc)" --no-tests=error \
  --output-on-failure
phase "build (release)" build release
phase "long tests" tests_twice_in release "$(($(nproc) + 1))" -L long
phase "lint" scripts/lint.sh
phase "pip install ./python" install_package
phase "build (address and undefined behaviour sanitizers, with torch)" with_clang build asan-torch
phase "unit tests and ranks under these sanitizers" ctest --test-dir build/asan-torch \
  -L 'unit|ranks' -LE gpu -j "$(nproc)" --no-tests=error --output-on-failure

say_second_tries
if ((${#failed[@]} > 0)); then
  die "make check: $(IFS=';'; echo "${failed[*]}")"
fi
say "make check: all passed in $SECONDS s"
