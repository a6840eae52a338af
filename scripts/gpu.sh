#!/usr/bin/env bash
# `make gpu`: what needs a GPU, in the phases `tests`, `nccl`, `memcheck` and `bench`, or those named: scripts/gpu.sh nccl.
#
# `nccl` runs the tests of ranks that share a GPU over NCCL, with the NCCL 2.30 or later that LOCKSTEP_NCCL names
# (.../libnccl.so.2): LibTorch's own may be older. It is left out without the variable. `memcheck` needs
# compute-sanitizer. `bench` prints the rows of docs/results/performance.md.
source "$(dirname "$0")/common.sh"

[[ -e /dev/nvidiactl ]] || die "there is no GPU here (/dev/nvidiactl)"
failed=()
phase() { in_phase "$@" || failed+=("$1"); }

# Some tests wait for seconds, and all share the GPU.
at_once=4

gpu_tests() { tests_in release "$at_once" -L gpu "$@"; }
nccl_tests() { LD_PRELOAD=$LOCKSTEP_NCCL gpu_tests -R 'Ranks|Nccl|SharedGpu|GraphedDdp|OverRanks|test_train_gpu'; }

# A rank that is alone runs in the test's own process: see docs/internals/development.md.
memcheck() {
  local program status=0
  for program in build/bin/*_cuda_test; do
    say "memcheck: $program"
    LOCKSTEP_TEST_IN_PROCESS=1 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
      "$program" --gtest_filter='-SharedGpu.*:*Nccl*' || status=1
  done
  return "$status"
}

rows() {
  local bench=build/bin/lockstep precision
  "$bench" bench step --device cuda --models mlp,resnet50 --rounds 5 --cuda-graph
  "$bench" bench step --device cuda --models mlp,resnet50 --rounds 5 --cuda-graph --reduce-alone
  for precision in bf16 fp16 tf32 fp32; do
    "$bench" bench step --device cuda --models resnet50 --precision "$precision" --rounds 5
    "$bench" bench step --device cuda --models resnet50 --precision "$precision" --rounds 5 --cuda-graph
  done
  "$bench" bench train --rows gpu --rounds 2
}

wanted=("$@")
((${#wanted[@]} > 0)) || wanted=(tests nccl memcheck bench)
for part in "${wanted[@]}"; do
  [[ $part =~ ^(tests|nccl|memcheck|bench)$ ]] ||
    die "there is no phase '$part'; expected tests, nccl, memcheck, bench"
done
in_phase "build (release)" build release || die "the release build"
for part in "${wanted[@]}"; do
  case $part in
    tests) phase "tests on a GPU" gpu_tests ;;
    nccl)
      if [[ -n ${LOCKSTEP_NCCL:-} ]]; then
        phase "tests of ranks that share a GPU over $LOCKSTEP_NCCL" nccl_tests
      else
        say "left out: ranks that share a GPU over NCCL; LOCKSTEP_NCCL=/path/to/libnccl.so.2 names one of 2.30 or later"
      fi
      ;;
    memcheck) phase "memcheck" memcheck ;;
    bench) phase "benchmarks" rows ;;
  esac
done

if ((${#failed[@]} > 0)); then
  die "make gpu: $(IFS=';'; echo "${failed[*]}")"
fi
say "make gpu: all passed in $SECONDS s"
