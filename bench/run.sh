#!/usr/bin/env bash
# Runs the benchmarks; `make bench` calls it. Each prints what it measured beside what, and writes
# build/bench/<name>.json. docs/measurements.md says what the figures mean.
#
#   FIRN_BENCH      which ones, in order (all of them)
#   FIRN_PYTHON     a Python with PyTorch, for the step beside it (python3)
#   LLMC_TRAIN      llm.c's train_gpt2, for the step beside it
#   FIRN_TEXT       the text that the learning run reads; without it that run is left out
#   FIRN_TRACE      the spot trace that trace.py plays; without it that run is left out
#   FIRN_BENCH_DIR  where checkpoints and data go while they are measured: 4.3 GB (TMPDIR, else /tmp)
set -euo pipefail
cd "$(dirname "$0")/.."

all="planner recorder reduce step control-plane checkpoint copies scrub data_start cluster links join uneven pipeline freeze shadow hostile flood learn trace"

export FIRN_BIN=${FIRN_BIN:-$PWD/build/bin}
export FIRN_BENCH_OUT=${FIRN_BENCH_OUT:-$PWD/build/bench}
export PYTHONDONTWRITEBYTECODE=1

base=${FIRN_BENCH_DIR:-${TMPDIR:-/tmp}}
TMPDIR=$(mktemp -d "$base/firn-bench-run-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

run_one() {
    case $1 in
    planner | recorder | reduce | control-plane) timeout 600 "$FIRN_BIN/bench-$1" ;;
    checkpoint) timeout 1800 "$FIRN_BIN/bench-checkpoint" --torch bench/checkpoint_torch.py ;;
    step)
        # OpenMP's count bounds how many threads sgemm alone may be given.
        OMP_NUM_THREADS=2 timeout 600 "$FIRN_BIN/bench-step" --torch bench/step_torch.py
        timeout 600 bench/step_llmc.sh
        ;;
    cluster | links | copies | scrub | data_start | shadow | hostile | flood) timeout 600 "bench/$1.py" ;;
    join) timeout 1500 bench/join.py 12 768 12 ;; # of the size of GPT-2 124M
    uneven | pipeline | freeze) timeout 1500 "bench/$1.py" ;;
    learn)
        if [ -n "${FIRN_TEXT:-}" ]; then
            timeout 900 bench/learn.py "$FIRN_TEXT"
        else
            echo "learn is left out: FIRN_TEXT names no text (tinyshakespeare.txt, 1.1 MB)"
        fi
        ;;
    trace)
        if [ -n "${FIRN_TRACE:-}" ]; then
            timeout 1800 bench/trace.py "$FIRN_TRACE"
        else
            echo "trace is left out: FIRN_TRACE names no spot trace (bench/trace.py says which formats)"
        fi
        ;;
    *)
        echo "bench: there is no \"$1\": ${all// /, }" >&2
        return 2
        ;;
    esac
}

failed=0
for name in ${FIRN_BENCH:-$all}; do
    run_one "$name" || { echo "bench: $name failed" >&2; failed=1; }
    echo
done
echo "results are in $FIRN_BENCH_OUT"
exit $failed
