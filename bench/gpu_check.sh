#!/usr/bin/env bash
# Everything that wants a GPU, in one command; `make gpu-check` calls it. Builds for the GPU that is here, runs
# the parity tests and whole jobs on GPU 0 and the benchmarks, and writes a report while it goes, so that what was
# found is there when it is cut off. What matters most comes first, and every step has a time limit. Needs no network.
# Without a GPU it builds, runs what the emulator can, and says so.
#
#   PARTS            which of: build parity steps jobs nccl kernels checkpoints sanitize (all, in this order);
#                    with it the report is added to, so that the work can be cut into several calls. `build` is
#                    left out by itself where there is no toolkit and build/cuda was brought along
#   FIRN_GPU_REPORT  where to (build/gpu-report.txt)
#   FIRN_SANITIZER   compute-sanitizer, where it is not on the PATH; without one its runs are left out
#   FIRN_PYTHON      a Python with PyTorch for the same steps beside ours; without PyTorch they are left out
set -uo pipefail
cd "$(dirname "$0")/.."

every="build parity steps jobs nccl kernels checkpoints sanitize"
parts=${PARTS:-$every}
build=build/cuda
report=${FIRN_GPU_REPORT:-build/gpu-report.txt}
export PATH=$PATH:/usr/local/cuda/bin
sanitizer=${FIRN_SANITIZER:-$(command -v compute-sanitizer)}
failed=0
mkdir -p build

for part in $parts; do
    case " $every " in
    *" $part "*) ;;
    *) echo "gpu-check: PARTS can be: $every" >&2 && exit 2 ;;
    esac
done

say() {
    printf '%s\n' "$*" | tee -a "$report"
}

# run SECONDS COMMAND...
run() {
    local limit=$1 began=$SECONDS status
    shift
    say "" "\$ $*"
    timeout --kill-after=10 "$limit" "$@" </dev/null 2>&1 | tee -a "$report"
    status=${PIPESTATUS[0]}
    [ "$status" = 124 ] && say "CUT OFF after $limit s"
    [ "$status" = 0 ] || { say "FAILED with status $status"; failed=1; }
    say "($((SECONDS - began)) s)"
    return "$status"
}

[ -n "${PARTS:-}" ] || : >"$report"
say "" "firn GPU report, $(date -u +%Y-%m-%dT%H:%M:%SZ): $parts"
say "$(git describe --always --dirty 2>/dev/null || echo 'no git'), $(nvcc --version 2>/dev/null | tail -1)"
has_gpu=0
if nvidia-smi -L >/dev/null 2>&1; then
    has_gpu=1
    run 30 nvidia-smi --query-gpu=name,uuid,memory.total,driver_version --format=csv
else
    say "NO GPU: nothing below has run on a device; the GPU's kernels ran in the emulator alone"
fi

# Machine code for this GPU alone, and of the programs those that are run below.
part_build() {
    local architectures=() programs
    if ! command -v nvcc >/dev/null && [ -x $build/bin/bench-device ]; then
        say "no toolkit here: what lies in $build is taken as it is"
        return
    fi
    if [ $has_gpu = 1 ]; then
        architectures=("-DFIRN_CUDA_ARCHITECTURES=$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d '. ')")
    fi
    run 120 cmake --preset cuda --log-level=NOTICE "${architectures[@]}" || exit 1
    mapfile -t programs < <(ninja -C $build -t targets all |
        sed -nE 's!^(parity_test_[a-z0-9_]+|unit_kernels_test_[a-z0-9_]+|engine_test_[a-z0-9_]+|integration_test_(gpu_slots|layouts|restore|shadow)): phony$!\1!p')
    run 480 cmake --build $build --parallel --target firn-cuda firn-worker bench-device bench-checkpoint "${programs[@]}" || exit 1
}

part_parity() {
    run 300 ctest --test-dir $build --output-on-failure -R '^(parity|unit_kernels|cuda)_'
    [ $has_gpu = 1 ] || run 300 ctest --test-dir $build --output-on-failure -R '^(engine_|integration_test_gpu_slots)'
}

# bench-device and PyTorch on one shape: the ratio of their tokens, and what ours reaches of the largest product.
beside_torch() {
    local name=$1 want=$2 answer status ours theirs share
    shift 2
    say "" "== $name"
    run 240 "$build/bin/bench-device" "$@"
    ours=$(sed -nE 's/^step: .* ([0-9]+) tokens\/s, .*/\1/p' "$report" | tail -1)
    share=$(sed -nE 's/^step: .* tokens\/s, ([0-9.]+) % of the product.*/\1/p' "$report" | tail -1)
    answer=$(timeout --kill-after=10 300 "${FIRN_PYTHON:-python3}" bench/device_torch.py "$@" 2>&1 </dev/null)
    status=$?
    say "$(tail -5 <<<"$answer")"
    [ $status = 0 ] || [ $status = 77 ] || failed=1
    theirs=$(sed -nE 's/^PyTorch .* ([0-9]+) tokens\/s, .*/\1/p' <<<"$answer" | tail -1)
    judge "$name: share of the product's rate, in %" "$share" 1 "$want"
    judge "$name: tokens/s beside torch.compile" "$ours" "$theirs" 1.1
}

# judge NAME VALUE PER WANTED: "" wants nothing, or was not measured
judge() {
    awk -v name="$1" -v value="$2" -v per="$3" -v wanted="$4" 'BEGIN {
        if (value == "" || per == "") { print "aim: " name ": not measured"; exit }
        ratio = value / per
        printf "aim: %s: %.2f%s\n", name, ratio,
            wanted == "" ? "" : sprintf(" (wanted %.2f): %s", wanted, ratio >= wanted ? "met" : "MISSED")
    }' | tee -a "$report"
}

part_steps() {
    [ $has_gpu = 1 ] || return 0
    beside_torch "GPT-2 1.5B" 60 --layers 48 --width 1600 --heads 25 --batch 4 --rounds 10
    beside_torch "GPT-2 124M" "" --batch 16
}

part_jobs() {
    [ $has_gpu = 1 ] || return 0
    say "" "whole jobs on GPU 0: workers share it over host links, some die; each test asserts equal bits"
    for job in gpu_slots layouts restore shadow; do
        run 240 env CREW_DEVICE=cuda:0 $build/tests/integration_test_$job
    done
}

# Workers that say they are on hosts of their own may share a GPU, as far as NCCL is concerned; it then takes sockets.
part_nccl() {
    [ $has_gpu = 1 ] || return 0
    say "" "the same with NCCL between workers that share the GPU, each with an NCCL_HOSTID of its own"
    for job in layouts restore; do
        run 240 env CREW_DEVICE=cuda:0 CREW_NCCL=1 NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN $build/tests/integration_test_$job
    done
}

part_kernels() {
    [ $has_gpu = 1 ] || return 0
    say "" "what recording is worth, on a small step; and the other precisions"
    run 120 env FIRN_CUDA_GRAPHS=off $build/bin/bench-device --batch 1
    run 120 $build/bin/bench-device --batch 1
    run 120 env FIRN_CUDNN_LIBRARY= $build/bin/bench-device --batch 16
    for precision in tf32 f32; do
        run 180 $build/bin/bench-device --precision $precision --rounds 5
    done
}

part_checkpoints() {
    [ $has_gpu = 1 ] || return 0
    say "" "how long checkpoints hold up training on the device"
    run 400 $build/bin/bench-checkpoint --backend cuda --parts training
}

# Every operation and whole models, on the device alone: what the emulator has run says nothing new.
part_sanitize() {
    [ $has_gpu = 1 ] || return 0
    if [ -z "$sanitizer" ]; then
        say "compute-sanitizer was not found: its checks are left out"
        return
    fi
    for tool in memcheck racecheck initcheck; do
        for test in "$build"/tests/parity_test_{attention,model,linear,layernorm,cross_entropy,adamw,embedding,gelu,rmsnorm,rotary,sums,swiglu}; do
            run 150 "$sanitizer" --tool $tool --error-exitcode 9 "$test"
        done
    done
}

export FIRN_CUDA_LIBRARY=$PWD/$build/bin/libfirn-cuda.so
for part in $parts; do
    say "" "==== $part"
    part_$part
done
say "" "$([ $failed = 0 ] && echo "all of it passed: $parts" || echo 'SOMETHING FAILED: see above')"
grep -h '^aim: ' "$report"
say "report: $report"
exit $failed
