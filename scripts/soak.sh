#!/usr/bin/env bash
# `make soak`: the long loops. Every tests/soak/*.py in order, then every fuzz target for
# SOAK_SECONDS (60). A fuzz target keeps what it learned in build/fuzz/corpus.
source "$(dirname "$0")/common.sh"

seconds=${SOAK_SECONDS:-60}
failed=()
phase() { in_phase "$@" || failed+=("$1"); }

in_phase "build (release)" build release
shopt -s nullglob
for script in tests/soak/*.py; do
  phase "$script" "$(test_python)" "$script"
done

in_phase "build (libFuzzer)" build fuzz fuzz_targets
targets=(build/fuzz/bin/fuzz_*)
((${#targets[@]} > 0)) || die "no fuzz target was built"
for target in "${targets[@]}"; do
  name=$(basename "$target")
  mkdir -p "build/fuzz/corpus/$name"
  phase "$name for $seconds s" "$target" "build/fuzz/corpus/$name" -max_total_time="$seconds" \
    -timeout=5 -rss_limit_mb=1024 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/corpus/$name."
done

if ((${#failed[@]} > 0)); then
  die "make soak: $(IFS=';'; echo "${failed[*]}")"
fi
say "make soak: all passed in $SECONDS s"
