#!/usr/bin/env bash
# `make conformance`: PyTorch's own distributed tests with Gloo and with lockstep at four world
# sizes, then the table in docs/results/conformance.md. Fails if a test passes with Gloo alone.
# WORLD_SIZES="2 3" runs less.
source "$(dirname "$0")/common.sh"

in_phase "build (the Python package)" build release lockstep_python
export PYTHONPATH=$PWD/build/python/package${PYTHONPATH:+:$PYTHONPATH}
results=build/conformance
rm -rf "$results"
mkdir -p "$results"

# A test that fails is judged by the table, beside what Gloo does with it.
run_suite() {
  local backend=$1 world_size=$2
  local name=$results/$backend-$world_size
  "$(test_python)" tests/conformance/run.py --backend "$backend" --world-size "$world_size" --json "$name.json" \
    >"$name.log" 2>&1 || true
  tail -n 1 "$name.log"
  [[ -f $name.json ]] || die "the run did not end; its log is $name.log"
}

for world_size in ${WORLD_SIZES:-2 3 4 8}; do
  for backend in gloo lockstep; do
    in_phase "$backend, world size $world_size" run_suite "$backend" "$world_size"
  done
done
"$(test_python)" tests/conformance/table.py "$results" docs/results/conformance.md ||
  die "make conformance: see above, and the logs in $results"
say "make conformance: lockstep passes what Gloo passes; docs/results/conformance.md is written"
