#!/usr/bin/env bash
# Everything that wants a GPU, in one command; `make gpu-check` calls it. Builds with the CUDA toolkit, runs
# the parity tests and whole jobs on GPU 0 and the benchmarks, and writes build/gpu-report.txt. Needs no network. Without a GPU
# it builds, runs what the emulator can, and says so.
#
#   FIRN_SANITIZER   compute-sanitizer, where it is not on the PATH; without one its runs are left out
#   FIRN_PYTHON      a Python with PyTorch for the same steps beside ours; without PyTorch they are left out
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

# Every operation and whole models, on the device alone: what the emulator has run says nothing new.
sanitize() {
    if [ -z "$sanitizer" ]; then
        say "compute-sanitizer was not found: its checks are left out"
        return
    fi
    for tool in memcheck racecheck initcheck; do
        for test in "$build"/tests/parity_test_{adamw,attention,cross_entropy,embedding,gelu,layernorm,linear,model,rmsnorm,rotary,sums,swiglu}; do
            run "$sanitizer" --tool $tool --error-exitcode 9 "$test"
        done
    done
}

whole_jobs() {
    say "" "whole jobs on GPU 0: workers share it over host links, some die; each test asserts equal bits"
    for job in gpu_slots layouts restore shadow; do
        run env CREW_DEVICE=cuda:0 timeout 1200 $build/tests/integration_test_$job
    done
}

# The same shapes in PyTorch, where it is installed and sees the GPU (FIRN_PYTHON).
beside_torch() {
    run "$build/bin/bench-device" "$@"
    local answer status
    answer=$(timeout 900 "${FIRN_PYTHON:-python3}" bench/device_torch.py "$@" 2>&1)
    status=$?
    say "$(tail -5 <<<"$answer")"
    [ $status = 0 ] || [ $status = 77 ] || failed=1
}

measure() {
    say "" "GPT-2 124M and 1.5B, one micro-batch a step: each kernel beside its floor, steps beside PyTorch's"
    beside_torch --batch 16
    beside_torch --layers 48 --width 1600 --heads 25 --batch 4
    for precision in tf32 f32; do
        run $build/bin/bench-device --precision $precision
    done
    say "" "what recording is worth: a large step and a small one, without it and with it"
    for batch in 16 1; do
        run env FIRN_CUDA_GRAPHS=off $build/bin/bench-device --batch $batch
        run $build/bin/bench-device --batch $batch
    done
    say "" "how long checkpoints hold up training on the device"
    run timeout 1800 $build/bin/bench-checkpoint --backend cuda --parts training
}

if [ $has_gpu = 1 ]; then
    sanitize
    whole_jobs
    measure
else
    say "" "the engine of a worker on the emulated GPU"
    run ctest --test-dir $build --output-on-failure -R '^(engine_|integration_test_gpu_slots)'
fi
say "" "$([ $failed = 0 ] && echo 'all of it passed' || echo 'SOMETHING FAILED: see above')"
say "report: $report"
exit $failed
