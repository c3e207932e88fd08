#!/usr/bin/env bash
# make demo: a small cluster trains a transformer, freezes it layer by layer, loses a node and takes it
# back. Then the same job runs undisturbed on one worker alone, and every number must be equal to the bit.
#
# Everything runs on 127.0.0.1, with files below build/demo. Exit status 0: the job completed and the
# numbers are equal. FIRN_BIN names another folder of programs. Arguments go to `firnctl job submit`, e.g.
#   examples/demo.sh --set train.steps=100
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=${FIRN_BIN:-$PWD/build/bin}:$PATH
job=examples/demo.yaml
dir=build/demo
kill_at=240 # step at which node b is killed
start_at=320

title() { printf '\n\033[1m== %s\033[0m\n\n' "$*"; }

# use CLUSTER: point firnctl at this cluster from here on
use() { eval "$(firnctl local env --dir "$dir/$1")"; }

digest() { firnctl checkpoint show "$1" --json | sed -n 's/.*"state_digest": "\([0-9a-f]*\)".*/\1/p'; }

# Kill node b and start it again when the steps above are committed.
disturb() {
    firnctl metrics demo --exact --follow | while read -r step _; do
        case $step in
        "$kill_at") firnctl local kill b --dir "$dir/cluster" ;;
        "$start_at") firnctl local start b --dir "$dir/cluster" && break ;;
        esac
    done
}

disturber=
clean() {
    [ -z "$disturber" ] || kill "$disturber" 2>/dev/null || true
    for cluster in cluster alone; do
        [ ! -d "$dir/$cluster" ] || firnctl local down --dir "$dir/$cluster" >/dev/null 2>&1 || true
    done
}
trap clean EXIT
trap 'exit 130' INT TERM

clean # the remains of an interrupted demo
rm -rf "$dir"
mkdir -p "$dir"

title 'A cluster: etcd and three firnd with two slots each'
cat <<'END'
Each slot offers 19 MiB to the planner, like a device that is too small for the model, so the job must
begin as a pipeline. (Only plans count with this size; nothing limits the processes. The plan shows the
memory of whole processes. Of slots as small as these it requires only that they hold the tensors.)

END
firnctl local up --dir "$dir/cluster" --nodes 3 --slots 2 --memory 19
use cluster

title 'The plan'
firnctl plan "$job"

title 'Training'
cat <<END
A byte-level GPT learns C from /usr/include. Its layers freeze from the input up, and the freed slots become
replicas: watch the layout. After step $kill_at this script kills node b (SIGKILL: firnd and its workers).
After step $start_at it starts the node again.

END
firnctl job submit "$job" "$@"
disturb >"$dir/disturb.log" 2>&1 &
disturber=$!
firnctl watch demo

title 'The report'
firnctl report demo --svg "$dir/loss.svg"
printf '\nActions of this script:\n'
cat "$dir/disturb.log"

title 'A text of the model'
firnctl sample demo --prompt '#include <' --tokens 320 --temperature 0.7
echo

title 'The proof: the same job on one worker alone, undisturbed'
firnctl metrics demo --exact >"$dir/cluster.exact"
cluster_digest=$(digest demo)
firnctl local down --dir "$dir/cluster"
firnctl local up --dir "$dir/alone" --nodes 1 --slots 1
use alone
firnctl job submit "$job" --wait "$@"
firnctl metrics demo --exact >"$dir/alone.exact"
alone_digest=$(digest demo)

title 'Verdict'
steps=$(wc -l <"$dir/alone.exact")
printf 'loss, gradient norm and freezing of %s steps: %s and %s\n' "$steps" "$dir/cluster.exact" "$dir/alone.exact"
printf 'digest of parameters and optimizer: %s and %s\n\n' "$cluster_digest" "$alone_digest"
if cmp "$dir/cluster.exact" "$dir/alone.exact" && [ -n "$alone_digest" ] && [ "$cluster_digest" = "$alone_digest" ]; then
    printf '\033[1;32mEQUAL to the last bit: %s steps, and the trained model.\033[0m\n' "$steps"
else
    printf '\033[1;31mNOT EQUAL: firn has broken its promise.\033[0m\n'
    exit 1
fi
