#!/usr/bin/env bash
# Runs every fuzz target of build/fuzz with libFuzzer, so many seconds each; `make fuzz` calls it.
#
#   fuzz.sh SECONDS [TARGET...]   TARGET: "plan", "link", ...; all of them unless some are named
#
# New inputs that reach new code are kept in build/fuzz/corpus/TARGET and used by the next run; an input that a
# decoder dies of, that takes longer than FIRN_FUZZ_TIMEOUT seconds (5) or more memory than FIRN_FUZZ_RSS_MB
# (1024), is kept in build/fuzz/found/TARGET-*, and the run ends with 1. Put what is mended into
# tests/fuzz/corpus/TARGET, where every `make test` replays it.
set -uo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
found=build/fuzz/found
mkdir -p "$found"
failed=0
for name in "$@"; do
    kept=build/fuzz/corpus/$name
    mkdir -p "$kept"
    log=build/fuzz/$name.log
    if ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "build/fuzz/tests/fuzz_$name" -max_total_time="$seconds" -timeout="${FIRN_FUZZ_TIMEOUT:-5}" \
        -rss_limit_mb="${FIRN_FUZZ_RSS_MB:-1024}" -max_len="${FIRN_FUZZ_BYTES:-65536}" -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$kept" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        rss=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
        echo "$name: $runs inputs in $seconds s, $(find "$kept" -type f | wc -l) kept, $rss MB at most"
    else
        echo "$name: FAILED, see $log; the input is in $found:" >&2
        find "$found" -name "$name-*" >&2
        failed=1
    fi
done
exit $failed
