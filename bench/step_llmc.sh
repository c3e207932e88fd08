#!/usr/bin/env bash
# The time of a step of llm.c's train_gpt2 (batch 4 x 64 tokens, GPT-2 124M, f32), where one is built:
# LLMC_TRAIN names the program; it is run in its own folder, where its weights and data are.
set -euo pipefail

[ -x "${LLMC_TRAIN:-}" ] || { echo "llm.c is left out: LLMC_TRAIN names no program"; exit 0; }

folder=$(dirname "$LLMC_TRAIN")
out=${FIRN_BENCH_OUT:-build/bench}
mkdir -p "$out"
echo "== step_llmc: $LLMC_TRAIN, a step of 4 x 64 tokens"
results=""
for threads in 1 2; do
    # It says "step 3: train loss 4.29 (took 1234.56 ms)". The timeout ends a run that would go on.
    median=$( (cd "$folder" && OMP_NUM_THREADS=$threads timeout 60 stdbuf -oL "./$(basename "$LLMC_TRAIN")" || true) |
        sed -n 's/^step [1-9][0-9]*:.*took \([0-9.]*\) ms.*/\1/p' | sort -n |
        awk '{ times[NR] = $1 } END { if (NR) print times[int((NR + 1) / 2)] }')
    echo "$threads thread(s): ${median:-no step finished} ms"
    results="$results${results:+, }\"threads_${threads}_step_ms\": ${median:-null}"
done
echo "{\"benchmark\": \"step_llmc\", \"command\": \"$LLMC_TRAIN\", \"results\": {$results}}" > "$out/step_llmc.json"
