#!/usr/bin/env bash
# Everything that `make lint` holds the tree to: run.sh [BUILD]. BUILD is a configured build folder.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${1:-$top/build}

failed=0
echo 'lint: rules of the tree and its format'
python3 "$here/rules.py" "$top" || failed=1
echo 'lint: hardening of the programs'
python3 "$here/hardening.py" "$build" || failed=1
echo 'lint: clang-tidy (one to three minutes)'
python3 "$here/tidy.py" "$top" "$build" "$(nproc)" || failed=1

[ "$failed" = 0 ] && echo 'lint: nothing found'
exit "$failed"
