#!/usr/bin/env bash
# `make lint`: clang-format over all of our files, clang-tidy over the product (gmock takes it minutes
# a file), and does each file compile by itself? `make format` writes the layout.
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
    # Nothing is built: no precompiled headers. clang-tidy reads joined files, because torch's headers
    # take it most of the time.
    in_phase "configure" configure tidy
    configure alone
    # What is not upstream yet; without an upstream, all that is not known to be clean.
    export SINCE=${SINCE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)}
    export JOBS=$(jobs) CLANG_TIDY
    CLANG_TIDY=$(clang_tidy)
    in_phase "clang-tidy" python3 scripts/lint_files.py tidy build/tidy/compile_commands.json \
      "^$PWD/(build/tidy/)?(lockstep|python|examples)/" || failed=1
    in_phase "static analyzer" python3 scripts/lint_files.py analyze build/alone/compile_commands.json \
      "^$PWD/(lockstep|python|examples)/" || failed=1
    in_phase "tests and benchmarks by themselves" python3 scripts/lint_files.py alone \
      build/alone/compile_commands.json "^$PWD/(tests|benchmarks)/" || failed=1
    exit "$failed"
    ;;
  *)
    die "usage: scripts/lint.sh [lint|format]"
    ;;
esac
