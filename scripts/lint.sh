#!/usr/bin/env bash
# `make lint`: clang-format over all of our files, clang-tidy over the product (gmock takes it minutes
# a file), the rest compiled file by file; `make format` writes the layout.
source "$(dirname "$0")/common.sh"

mapfile -t files < <(find lockstep python tests examples benchmarks -name '*.cpp' -o -name '*.h' | sort)

# The one that setup.sh installed; else the machine's own.
clang_tidy() {
  if [[ -x .venv-lint/bin/clang-tidy ]]; then echo "$PWD/.venv-lint/bin/clang-tidy"; else echo clang-tidy; fi
}

case ${1:-lint} in
  format)
    clang-format-19 -i "${files[@]}"
    ;;
  lint)
    failed=0
    in_phase "clang-format" clang-format-19 --dry-run -Werror "${files[@]}" || failed=1
    # clang-tidy reads each file by itself, so nothing is built: no joined files, no precompiled headers.
    in_phase "configure (clang-tidy)" configure tidy
    database=build/tidy/compile_commands.json
    export JOBS=$(jobs) CLANG_TIDY
    CLANG_TIDY=$(clang_tidy)
    in_phase "clang-tidy" python3 scripts/lint_files.py tidy "$database" \
      "^$PWD/(lockstep|python|examples)/" || failed=1
    in_phase "tests and benchmarks by themselves" python3 scripts/lint_files.py alone "$database" \
      "^$PWD/(tests|benchmarks)/" || failed=1
    exit "$failed"
    ;;
  *)
    die "usage: scripts/lint.sh [lint|format]"
    ;;
esac
