#!/usr/bin/env bash
# Exactly what CI runs: format, layers, tests, the same tests under ASan and UBSan, fuzz targets on their seeds.
# Usage: scripts/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh clang-format
step() { printf '\n== %s (%s)\n' "$1" "$(date +%H:%M:%S)"; }

step "format"
find lib apps cuda tests \( -name '*.cpp' -o -name '*.h' -o -name '*.inc' \) -print0 | xargs -0 clang-format --dry-run -Werror

step "layers"
python3 scripts/check_layers.py

step "tests"
scripts/test.sh

step "tests and fuzz targets under sanitizers"
cmake -S . -B build-sanitize -G Ninja -DCMAKE_BUILD_TYPE=Release -DFP8RL_SANITIZE=ON -DFP8RL_FUZZ=ON \
    -DFP8RL_FUZZ_SECONDS=10 >/dev/null
cmake --build build-sanitize
UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build-sanitize --output-on-failure -LE slow
step "done"
