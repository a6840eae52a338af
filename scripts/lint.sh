#!/usr/bin/env bash
# `make lint`: clang-format over all of our files, clang-tidy over the product (gmock takes it minutes
# a file), the rest compiled file by file; `make format` writes the layout.
source "$(dirname "$0")/common.sh"

mapfile -t files < <(find lockstep python tests examples benchmarks -name '*.cpp' -o -name '*.h' | sort)

case ${1:-lint} in
  format)
    clang-format-19 -i "${files[@]}"
    ;;
  lint)
    failed=0
    in_phase "clang-format" clang-format-19 --dry-run -Werror "${files[@]}" || failed=1
    # clang-tidy reads each file by itself, so nothing is built: no joined files, no precompiled headers.
    in_phase "configure (clang-tidy)" configure tidy
    in_phase "clang-tidy" run-clang-tidy-19 -quiet -p build/tidy -j "$(jobs)" \
      "$PWD/(lockstep|python|examples)/.*\.cpp$" || failed=1
    JOBS=$(jobs) in_phase "tests and benchmarks by themselves" "$(test_python)" scripts/compile_alone.py \
      build/tidy/compile_commands.json "$PWD/(tests|benchmarks)/" || failed=1
    exit "$failed"
    ;;
  *)
    die "usage: scripts/lint.sh [lint|format]"
    ;;
esac
