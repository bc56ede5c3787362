#!/usr/bin/env python3
"""Include rules of the tree (README, "The rooms"): who may include whom, and where heavy headers may stand.

Usage: scripts/check_layers.py        exits 1 and names file:line for each breach
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ["core", "quant", "backend", "cpu", "io", "dist", "nn", "recipe", "plan", "rollout", "rl", "run"]
ALLOWED = {
    "core": set(),
    "quant": {"core"},
    "backend": {"quant", "core"},
    "cpu": {"backend", "quant", "core"},
    "io": {"core"},
    "dist": {"core"},
    "recipe": {"quant", "core"},
    "nn": {"backend", "quant", "io", "core"},
    "plan": {"recipe", "rollout", "nn", "backend", "quant", "core"},
    "rollout": {"nn", "backend", "io", "core"},
    "run": {"recipe", "nn", "io", "dist", "core"},
    "rl": {"run", "rollout", "plan", "recipe", "nn", "backend", "quant", "io", "dist", "core"},
}
HEAVY = re.compile(r"nlohmann/|yaml-cpp/|CLI/|spdlog/|fmt/")
HEAVY_ROOMS = {"io", "recipe", "run"}
CUDA = re.compile(r"cuda|cublas|nccl|cudnn", re.I)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
MAX_LINES = 500


def main():
    faults = []
    for path in sorted(p for d in ("lib", "apps", "cuda", "tests") for p in (ROOT / d).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".inc", ".cu", ".cuh"):
            continue
        rel = path.relative_to(ROOT)
        lines = path.read_text().split("\n")
        if len(lines) > MAX_LINES + 1:
            faults.append(f"{rel}: {len(lines) - 1} lines; past {MAX_LINES} a file holds two subjects")
        room = rel.parts[1] if rel.parts[0] == "lib" else None
        for number, line in enumerate(lines, 1):
            m = INCLUDE.match(line)
            if not m or room is None:
                continue
            target = m.group(1)
            first = target.split("/")[0]
            if first in ROOMS and first != room and first not in ALLOWED[room]:
                faults.append(f"{rel}:{number}: {room} may not include {first}")
            if HEAVY.search(target) and (path.suffix != ".cpp" or room not in HEAVY_ROOMS):
                faults.append(f"{rel}:{number}: {target} belongs in .cpp files of io, recipe, run and apps")
            if CUDA.search(target):
                faults.append(f"{rel}:{number}: no CUDA header under lib/")
    for f in faults:
        print(f)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
