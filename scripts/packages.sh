#!/usr/bin/env bash
# Installs what building and testing need on Debian 12 and Ubuntu 22.04 or later. Does nothing when all of it is there.
# Usage: scripts/packages.sh [extra packages ...]
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config libyaml-cpp-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libpcre2-dev
    libutf8proc-dev catch2 ccache python3 "$@")
missing=()
for p in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "packages.sh: not root and no sudo; as root: apt-get install ${missing[*]}" >&2; exit 2; }
    sudo=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -q >/dev/null
"${sudo[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
