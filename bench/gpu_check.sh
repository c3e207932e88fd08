#!/usr/bin/env bash
# Everything that wants a GPU, in one command; `make gpu-check` calls it. Builds for the GPU that is here, runs
# the benchmarks, the parity tests and whole jobs on GPU 0, and writes a report while it goes, so that what was
# found is there when it is cut off. The aims come first, then what explains them. Every step has a time limit, and
# one that fails keeps none of the others from running. Needs no network.
# Without a GPU it builds, runs what the emulator can, and says so.
#
# On a machine that has a GPU and a toolkit but none of firn's libraries, build/gpu-kit.tar.xz is unpacked:
# `make gpu-kit` makes it where they are. Of a kit the kernels alone are compiled anew, when they have changed.
#
#   PARTS            which of: build steps parity jobs kernels nccl checkpoints sanitize (all, in this order);
#                    with it the report is added to, so that the work can be cut into several calls. Also: kit
#   FIRN_GPU_REPORT  where to (build/gpu-report.txt)
#   FIRN_GPU_SECONDS what all of it may take: for a machine that cuts calls off. What does not fit is named and not
#                    begun, and the summary is there in time
#   FIRN_GPU_PARITY_SECONDS  what all tests of parity may take together (300)
#   FIRN_GPU_ARCHITECTURES  what to build for where no GPU says it: 80 90 100 120, or 90 for H100 and H200 alone
#   FIRN_SANITIZER   compute-sanitizer, where it is not on the PATH; without one its runs are left out
#   FIRN_PYTHON      a Python with PyTorch for the same steps beside ours; without PyTorch they are left out. CUDA's
#                    libraries are taken from it where the system has none
set -uo pipefail
cd "$(dirname "$0")/.." || exit

every="build steps parity jobs kernels nccl checkpoints sanitize"
parts=${PARTS:-$every}
build=build/cuda
kit=build/gpu-kit.tar.xz
report=${FIRN_GPU_REPORT:-build/gpu-report.txt}
seconds=${FIRN_GPU_SECONDS:-86400}
part_end=$seconds # when the part must end that runs now
export PATH=$PATH:/usr/local/cuda/bin PYTHONUNBUFFERED=1
sanitizer=${FIRN_SANITIZER:-$(command -v compute-sanitizer)}
at_once=() # lines as they are written, also to the end of a pipe
! command -v stdbuf >/dev/null || at_once=(stdbuf -oL)
failures=()
output=$(mktemp) # of the last command
trap 'rm -f "$output"' EXIT
mkdir -p build "$(dirname "$report")"

for part in $parts; do
    case " $every kit " in
    *" $part "*) ;;
    *) echo "gpu-check: PARTS can be: $every kit" >&2 && exit 2 ;;
    esac
done

say() {
    printf '%s\n' "$@" | tee -a "$report"
}

# fail WHAT [WHY]: said now, and once more at the end with why, for the end may be all that is seen
fail() {
    failures+=("$1${2:+$'\n'$2}")
    say "FAILED: $1"
}

# why: the lines of the last command that tell most
why() {
    { grep -aE 'WRONG|  first |  pattern|computes with|ERROR|rror:| failed|refused|=========|Assertion|No such' "$output" || tail -n 4 "$output"; } |
        grep -avE 'Test failed|error: Failure!|^\[=====' | awk '!said[$0]++' | head -n 6 | cut -c 1-170 | sed 's/^/      /'
}

# run SECONDS COMMAND...: a kit's libraries are for its own programs
run() {
    local limit=$1 command=${*:2} began=$SECONDS status
    shift
    say "" "\$ $command"
    [ $((seconds - SECONDS - 10)) -ge "$limit" ] || limit=$((seconds - SECONDS - 10))
    [ $((part_end - SECONDS)) -ge "$limit" ] || limit=$((part_end - SECONDS))
    if [ "$limit" -lt 10 ]; then
        : >"$output"
        fail "no time left: $command"
        return 124
    fi
    case " $command" in
    *" $build/"*) [ ! -d $build/lib ] || set -- env LD_LIBRARY_PATH="$PWD/$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" ;;
    esac
    timeout --kill-after=5 "$limit" "${at_once[@]}" "$@" </dev/null 2>&1 | tee "$output" | tee -a "$report"
    status=${PIPESTATUS[0]}
    case $status in
    0) ;;
    124 | 137) fail "$command (cut off after $limit s)" "$(why)" ;;
    *) fail "$command (status $status)" "$(why)" ;;
    esac
    say "($((SECONDS - began)) s)"
    return "$status"
}

[ -n "${PARTS:-}" ] || : >"$report"
say "" "firn GPU report, $(date -u +%Y-%m-%dT%H:%M:%SZ): $parts"
say "$(git describe --always --dirty 2>/dev/null || echo 'no git'), $(nvcc --version 2>/dev/null | tail -1)"
say "$(nproc) processors, $(getconf GNU_LIBC_VERSION), $(df -h --output=avail . | tail -1 | tr -d ' ') of disk"
has_gpu=0
if nvidia-smi -L >/dev/null 2>&1; then
    has_gpu=1
    run 30 nvidia-smi --query-gpu=name,uuid,memory.total,memory.used,driver_version,clocks.max.sm,power.limit --format=csv
elif [ -e /dev/nvidiactl ]; then
    has_gpu=1
    say "there is a GPU, but no nvidia-smi"
else
    say "NO GPU: nothing below has run on a device; the GPU's kernels ran in the emulator alone"
fi

# ---- libraries ----

# installed LIBRARY: the system finds it by its name. All of the list is read: a reader that leaves early makes the
# writer fail, and with pipefail all of it.
installed() {
    ldconfig -p 2>/dev/null | grep -F "$1 " >/dev/null
}

# lies_in LIBRARY: where the toolkit or the Python with PyTorch has it, "" where none has
lies_in() {
    local folder
    for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib "${python_folders[@]}"; do
        [ -e "$folder/$1" ] && echo "$folder" && return
    done
}

# The first Python with PyTorch: its own libraries and, for comparison, its steps.
find_python() {
    local candidate
    for candidate in ${FIRN_PYTHON:-python3 python ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} /opt/*/bin/python3 /*venv*/bin/python3 ~/*/bin/python3}; do
        command -v "$candidate" >/dev/null || continue
        python=$candidate
        "$candidate" -c 'import importlib.util as u; raise SystemExit(u.find_spec("torch") is None)' 2>/dev/null && return
    done
    python=${FIRN_PYTHON:-python3}
}

# What the system does not find by name is named, or added to the path at its end.
find_libraries() {
    local library folder
    mapfile -t python_folders < <("$python" -c 'import glob, nvidia
for base in nvidia.__path__: print(*glob.glob(base + "/*/lib"), sep="\n")' 2>/dev/null)
    for library in libcublasLt.so.13 libnvrtc.so.13; do
        installed $library && continue
        folder=$(lies_in $library)
        [ -z "$folder" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    folder=$(lies_in libcublasLt.so.13)
    [ ! -e "$folder/../include/cublasLt.h" ] || export FIRN_CUBLASLT_ROOT=${FIRN_CUBLASLT_ROOT-$(realpath "$folder/..")}
    folder=$(lies_in libcudnn.so.9)
    if [ -n "$folder" ] && ! installed libcudnn.so.9; then # it opens its parts by their names
        export FIRN_CUDNN_LIBRARY=${FIRN_CUDNN_LIBRARY-$folder/libcudnn.so.9}
        export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    fi
    folder=$(lies_in libnccl.so.2)
    [ -z "$folder" ] || installed libnccl.so.2 || export FIRN_NCCL_LIBRARY=${FIRN_NCCL_LIBRARY-$folder/libnccl.so.2}
    say "Python with PyTorch: $("$python" -c 'import torch; print(torch.__version__, "of", torch.__file__)' 2>&1 | tail -n 1)"
    say "libraries: cuDNN ${FIRN_CUDNN_LIBRARY-by name}, NCCL ${FIRN_NCCL_LIBRARY-by name}, path ${LD_LIBRARY_PATH:-as it is}"
}

# missing_modules: what cmake/FirnDependencies.cmake wants and pkg-config does not find
missing_modules() {
    local module
    sed -nE 's/^ *pkg_check_modules\(.* ([a-z0-9.-]+)>=([0-9.]+)\)$/\1 >= \2/p' cmake/FirnDependencies.cmake |
        while read -r module; do pkg-config --exists "$module" 2>/dev/null || echo "${module%% *}"; done
}

# ---- parts ----

kernel_digest() {
    find kernels/cuda kernels/*.h base/error.[ch] base/compiler.h -type f 2>/dev/null | LC_ALL=C sort | xargs -r cat | sha256sum | cut -d" " -f1
}

# keep_digest: of the kernels that libfirn-cuda.so was made of
keep_digest() {
    kernel_digest >$build/kernels.sha256
}

# is_current: the programs are here, with the kernels of this tree
is_current() {
    [ -x $build/bin/firn-worker ] && [ "$(cat $build/kernels.sha256 2>/dev/null)" = "$(kernel_digest)" ]
}

# The programs of a kit look for each other, and for text to train on, in the folder they were built in: here is a
# link of that name.
part_unpack() {
    local source digest
    tar -C build -xf $kit || { fail "unpacking $kit"; return; }
    { read -r source && read -r digest; } <$build/kit
    if [ ! -e "$source" ]; then
        mkdir -p "$(dirname "$source")"
        ln -s "$PWD" "$source" || { fail "a link to here as $source"; return; }
    fi
    say "unpacked $kit, built in $source"
    [ "$digest" = "$(kernel_digest)" ] && keep_digest && return
    say "the kernels here are others than the kit's"
    run 120 cmake -S . -B build/kernels -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFIRN_CUDA=REQUIRED \
        -DFIRN_CUDA_ALONE=ON "${architectures[@]}" --log-level=NOTICE || return
    run 480 cmake --build build/kernels --parallel && cp build/kernels/bin/libfirn-cuda.so $build/bin/ && keep_digest
}

# Machine code for this GPU alone, and of the programs those that are run below.
part_build() {
    local architectures=() programs missing
    if [ -z "${FIRN_GPU_ARCHITECTURES:-}" ] && nvidia-smi -L >/dev/null 2>&1; then
        architectures=("-DFIRN_CUDA_ARCHITECTURES=$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d '. ')")
    elif [ -n "${FIRN_GPU_ARCHITECTURES:-}" ]; then
        architectures=("-DFIRN_CUDA_ARCHITECTURES=${FIRN_GPU_ARCHITECTURES// /;}")
    fi
    missing=$(missing_modules | tr '\n' ' ')
    if [ -e $kit ] && [ -n "$missing" ]; then
        part_unpack
        return
    fi
    if [ -x $build/bin/bench-device ] && { [ -n "$missing" ] || ! command -v nvcc >/dev/null; }; then
        say "not everything to build with is here: what lies in $build is taken as it is"
        is_current || fail "the kernels in $build are others than those of this tree, and cannot be compiled here"
        return
    fi
    [ -z "$missing" ] || say "MISSING here: $missing(cmake/packages.txt); or bring a kit along: make gpu-kit, $kit"
    run 120 cmake --preset cuda --log-level=NOTICE "${architectures[@]}" || return
    mapfile -t programs < <(ninja -C $build -t targets all |
        sed -nE 's!^(parity_test_[a-z0-9_]+|unit_kernels_test_[a-z0-9_]+|unit_daemon_test_gpus_here|engine_test_[a-z0-9_]+|integration_test_(gpu_slots|layouts|restore|shadow|torch_steps)): phony$!\1!p')
    run "$([ $has_gpu = 1 ] && echo 480 || echo 3600)" cmake --build $build --parallel \
        --target firn-cuda firn-worker bench-device bench-checkpoint "${programs[@]}" -- -k 0 && keep_digest
}

# What the parts after `build` run, with the libraries of the programs but for the C library's and the compiler's.
part_kit() {
    local folder
    folder=$(mktemp -d) || return
    mkdir -p "$folder/cuda/bin" "$folder/cuda/tests" "$folder/cuda/lib"
    cp $build/bin/{firn-worker,bench-device,bench-checkpoint,libfirn-cuda.so} "$folder/cuda/bin" || fail "kit: build first"
    cp $build/tests/{parity_test_*,unit_daemon_test_gpus_here,integration_test_{gpu_slots,layouts,restore,shadow,torch_steps},libfirn-cuda-emulated.so} \
        "$folder/cuda/tests" || fail "kit: build first"
    ldd "$folder"/cuda/bin/{firn-worker,bench-checkpoint} "$folder"/cuda/tests/* 2>/dev/null |
        sed -nE 's!^\s.* => (/[^ ]+) .*!\1!p' | sort -u |
        grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libresolv|libfirn-.*)\.so' | xargs -r cp -L -t "$folder/cuda/lib"
    find "$folder" -type f -exec strip --strip-debug {} + 2>/dev/null
    { sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' $build/CMakeCache.txt && cat $build/kernels.sha256; } >"$folder/cuda/kit" ||
        fail "kit: build first"
    tar -C "$folder" -cJf $kit cuda || fail "packing $kit"
    rm -rf "$folder"
    say "$kit: $(($(stat -c %s $kit) >> 20)) MiB"
}

# On a device the device alone: what CPUs and the emulator compute other machines know.
part_parity() {
    local test
    if [ $has_gpu = 0 ]; then
        run 600 ctest --test-dir $build --output-on-failure --parallel "$(nproc)" \
            -R '^(parity_|unit_kernels_|engine_|integration_test_gpu_slots)'
        return
    fi
    run 60 env PARITY_DEVICE=cuda $build/tests/unit_daemon_test_gpus_here # what firnd asks of a GPU
    run 60 $build/bin/firn-worker identity cuda:0
    run 60 $build/bin/firn-worker rates cuda
    part_end=$((SECONDS + ${FIRN_GPU_PARITY_SECONDS:-300}))
    for test in "${device_tests[@]}"; do # cuDNN compiles for each shape of attention
        run 180 env PARITY_DEVICE=cuda "$build/tests/parity_test_$test" || look_closer "$test" $?
    done
}

# look_closer TEST STATUS: where a device has failed, rather than computed something else, which access did it
look_closer() {
    [ -n "$sanitizer" ] || return
    [ "$2" -ge 128 ] || grep -qE 'GPU [0-9]+ .*failed|CUDA|cudaError|illegal|misaligned' "$output" || return
    run 120 env PARITY_DEVICE=cuda "$sanitizer" --tool memcheck --print-limit 3 "$build/tests/parity_test_$1"
}

# tokens_of PATTERN: in the line of the last command's output that begins so
tokens_of() {
    sed -nE "s/^$1.* ([0-9]+) tokens\/s, .*/\1/p" "$output"
}

# our_step NAME SHARE OPTION...: bench-device on one shape, and what it reaches of the largest product
our_step() {
    local name=$1 want=$2
    shift 2
    say "" "== $name"
    run 240 "$build/bin/bench-device" "$@"
    judge "$name: share of the product's rate, in %" \
        "$(sed -nE 's/^step: .* tokens\/s, ([0-9.]+) % of the product.*/\1/p' "$output")" 1 "$want"
}

# torch_step NAME TOKENS OPTION...: the same shape by PyTorch, beside our tokens
torch_step() {
    local name=$1 ours=$2 theirs
    shift 2
    say "" "== $name, PyTorch"
    if LD_LIBRARY_PATH=$path_before "$python" -c 'import torch' 2>/dev/null; then
        run 420 env LD_LIBRARY_PATH="$path_before" "$python" bench/device_torch.py "$@"
        theirs=$(tokens_of "PyTorch")
    fi
    judge "$name: tokens/s beside torch.compile" "$ours" "${theirs:-}" 1.1
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

# The aims are at 1.5B, so both of its measurements come before the smaller model.
part_steps() {
    local large=(--layers 48 --width 1600 --heads 25 --batch 8 --rounds 10) small=(--batch 16) ours_large ours_small
    [ $has_gpu = 1 ] || return 0
    our_step "GPT-2 1.5B" 60 "${large[@]}"
    ours_large=$(tokens_of "step:")
    torch_step "GPT-2 1.5B" "$ours_large" "${large[@]}"
    our_step "GPT-2 124M" "" "${small[@]}"
    ours_small=$(tokens_of "step:")
    torch_step "GPT-2 124M" "$ours_small" "${small[@]}"
}

# A test that starts PyTorch by itself gets it with the libraries that it brings.
beside_torch() {
    say "" "twenty steps of GPT-2 124M beside PyTorch's, in each precision"
    if ! LD_LIBRARY_PATH=$path_before "$python" -c 'import torch, transformers' 2>/dev/null; then
        say "no PyTorch with transformers here: left out"
        return
    fi
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$path_before" "$(command -v "$python")" >build/torch-python
    chmod +x build/torch-python
    run 300 env CREW_DEVICE=cuda:0 CREW_LARGE=1 FIRN_PYTHON="$PWD/build/torch-python" $build/tests/integration_test_torch_steps
}

part_jobs() {
    [ $has_gpu = 1 ] || return 0
    beside_torch
    say "" "whole jobs on GPU 0: workers share it over host links, some die; each test asserts equal bits"
    run 420 env CREW_DEVICE=cuda:0 CREW_LARGE=1 $build/tests/integration_test_gpu_slots
    for job in restore shadow layouts; do # without cuDNN, which each worker would ask and try anew
        run 420 env CREW_DEVICE=cuda:0 CREW_LARGE=1 FIRN_CUDNN_LIBRARY= $build/tests/integration_test_$job
    done
}

# Workers that say they are on hosts of their own may share a GPU, as far as NCCL is concerned; it then takes sockets.
part_nccl() {
    [ $has_gpu = 1 ] || return 0
    say "" "the same with NCCL between workers that share the GPU, each with an NCCL_HOSTID of its own"
    for job in restore layouts; do
        run 420 env CREW_DEVICE=cuda:0 CREW_LARGE=1 CREW_NCCL=1 FIRN_CUDNN_LIBRARY= NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN $build/tests/integration_test_$job
    done
}

# loss_bits: of the last command's steps
loss_bits() {
    sed -nE 's/^step: .*\((.*)\)$/\1/p' "$output"
}

part_kernels() {
    local recorded called
    [ $has_gpu = 1 ] || return 0
    say "" "what recording is worth, on a small step, whose bits it may not change; and the other precisions"
    run 120 env FIRN_CUDA_GRAPHS=off $build/bin/bench-device --batch 1
    called=$(loss_bits)
    run 120 $build/bin/bench-device --batch 1
    recorded=$(loss_bits)
    if [ -z "$recorded" ] || [ "$recorded" != "$called" ]; then
        fail "recorded steps end with the loss '$recorded', others with '$called'"
    fi
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

# sanitize TOOL TEST...: of our own kernels; cuDNN's are its makers' and take minutes
sanitize() {
    local tool=$1 test
    shift
    for test in "$@"; do
        run 120 env PARITY_DEVICE=cuda FIRN_CUDNN_LIBRARY= "$sanitizer" --tool "$tool" --print-limit 5 --error-exitcode 9 \
            "$build/tests/parity_test_$test"
    done
}

# Every operation and whole models for their accesses; what shares memory or waits at barriers for that.
part_sanitize() {
    [ $has_gpu = 1 ] || return 0
    if [ -z "$sanitizer" ]; then
        say "compute-sanitizer was not found: its checks are left out"
        return
    fi
    sanitize memcheck linear attention model layernorm rmsnorm cross_entropy embedding adamw gelu swiglu rotary sums
    sanitize racecheck attention embedding cross_entropy layernorm linear sums
    sanitize synccheck attention embedding cross_entropy sums
    sanitize initcheck model
    sanitize memcheck real_sizes
}

device_tests=(linear attention real_sizes model layernorm rmsnorm headnorm cross_entropy embedding adamw gelu swiglu rotary sums)
path_before=${LD_LIBRARY_PATH:-} # PyTorch brings all of its own
find_python
find_libraries
export FIRN_CUDA_LIBRARY=$PWD/$build/bin/libfirn-cuda.so
case " $parts " in
*" build "*) ;;
*) is_current || parts="build $parts" ;; # another machine than that of the call before, or a changed kernel
esac
for part in $parts; do
    say "" "==== $part"
    part_end=$seconds
    part_"$part"
done
say ""
grep -ahE '^(aim|step|PyTorch .*step): ' "$report"
if [ ${#failures[@]} = 0 ]; then
    say "all of it passed: $parts ($SECONDS s)"
else
    say "${#failures[@]} FAILED:" && printf '  %s\n' "${failures[@]}" | tee -a "$report"
fi
say "report: $report ($SECONDS s)"
[ ${#failures[@]} = 0 ]
