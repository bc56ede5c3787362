#!/usr/bin/env bash
# Installs what the tests need, builds, runs every test with ctest. Usage: scripts/test.sh [ctest options]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFP8RL_TESTS=ON
cmake --build build
ctest --test-dir build --output-on-failure "$@"
