#!/usr/bin/env bash
# Install the missing Debian packages of a list (cmake/packages.txt); print nothing if none is missing.
# FIRN_SKIP_PACKAGES=1 leaves the machine as it is (for other distributions and offline builds).
set -euo pipefail

list=${1:-$(dirname "$0")/packages.txt}
mapfile -t wanted < <(sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$list")

[ "${FIRN_SKIP_PACKAGES:-0}" = 0 ] || exit 0

stop() {
    {
        printf 'firn: %s\n%s lists these Debian packages, or what your system calls them:\n' "$1" "$list"
        printf '  %s\n' "${wanted[@]}"
        printf 'When they are there: FIRN_SKIP_PACKAGES=1 make\n'
    } >&2
    exit 1
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    stop 'packages can only be installed for you where there is apt.'

# One query for all packages: dpkg-query fails if one of them is unknown, so its status is ignored.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/ installed$//p' || true)
missing=()
for package in "${wanted[@]}"; do
    grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || stop "missing: ${missing[*]}; not root, and there is no sudo."
    as_root=(sudo)
fi

printf 'firn: installing %s\n' "${missing[*]}"
"${as_root[@]}" apt-get update -q || printf 'firn: the package lists are old; trying anyway\n' >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" ||
    stop "apt could not install: ${missing[*]}."
