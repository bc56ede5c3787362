#!/usr/bin/env bash
# From a fresh Debian 12 or Ubuntu 22.04 to a trained model: installs packages, builds, and lets a small Llama built from
# scratch learn to sort digits by GRPO in blockwise FP8 end to end. Usage: scripts/quickstart.sh [fp8rl train options]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFP8RL_TESTS=OFF >build.log 2>&1 || { tail -20 build.log >&2; exit 1; }
cmake --build build >>build.log 2>&1 || { tail -40 build.log >&2; exit 1; }
rm -f build.log
exec build/fp8rl train configs/quickstart.yaml --overwrite "$@"
