#!/usr/bin/env bash
# Everything that wants a GPU, in one command; `make gpu-check` calls it. Builds with the CUDA toolkit, runs
# the parity tests and whole jobs on GPU 0 and the benchmarks, and writes build/gpu-report.txt. Needs no network. Without a GPU
# it builds, runs what the emulator can, and says so.
#
#   FIRN_SANITIZER   compute-sanitizer, where it is not on the PATH; without one its runs are left out
set -uo pipefail
cd "$(dirname "$0")/.."

build=build/cuda
report=build/gpu-report.txt
export PATH=$PATH:/usr/local/cuda/bin
sanitizer=${FIRN_SANITIZER:-$(command -v compute-sanitizer)}
failed=0
mkdir -p build

say() {
    printf '%s\n' "$*" | tee -a "$report"
}

run() {
    say "" "\$ $*"
    "$@" 2>&1 | tee -a "$report"
    local status=${PIPESTATUS[0]}
    [ "$status" = 0 ] || { say "FAILED with status $status"; failed=1; }
    return "$status"
}

printf 'firn GPU report, %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$report"
say "$(git describe --always --dirty 2>/dev/null || echo 'no git'), $(nvcc --version | tail -1)"
has_gpu=0
if nvidia-smi -L >/dev/null 2>&1; then
    has_gpu=1
    run nvidia-smi --query-gpu=name,uuid,memory.total,driver_version --format=csv
else
    say "NO GPU: nothing below has run on a device; the GPU's kernels ran in the emulator alone"
fi

run cmake --preset cuda --log-level=NOTICE || exit 1
run cmake --build $build --parallel || exit 1
export FIRN_CUDA_LIBRARY=$PWD/$build/bin/libfirn-cuda.so
run ctest --test-dir $build --output-on-failure -R '^(parity|unit_kernels|cuda)_'

if [ $has_gpu = 1 ]; then
    if [ -n "$sanitizer" ]; then
        for tool in memcheck racecheck initcheck; do
            run "$sanitizer" --tool $tool --error-exitcode 9 $build/tests/parity_test_linear
            run "$sanitizer" --tool $tool --error-exitcode 9 $build/tests/parity_test_attention
            run "$sanitizer" --tool $tool --error-exitcode 9 $build/tests/parity_test_layernorm
        done
    else
        say "compute-sanitizer was not found: its checks are left out"
    fi
    say "" "whole jobs on GPU 0: workers share it over host links, some die; each test asserts equal bits"
    for job in gpu_slots layouts restore shadow; do
        run env CREW_DEVICE=cuda:0 timeout 1200 $build/tests/integration_test_$job
    done
    for precision in bf16 tf32 f32; do
        run $build/bin/bench-device --precision $precision
    done
    run env FIRN_CUDA_GRAPHS=off $build/bin/bench-device
    run $build/bin/bench-device --batch 1
    run env FIRN_CUDA_GRAPHS=off $build/bin/bench-device --batch 1
    run $build/bin/bench-device --layers 48 --width 1600 --heads 25 --batch 4
fi
say "" "$([ $failed = 0 ] && echo 'all of it passed' || echo 'SOMETHING FAILED: see above')"
say "report: $report"
exit $failed
