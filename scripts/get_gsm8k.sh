#!/usr/bin/env bash
# Puts GSM8K (MIT licence; train.jsonl and test.jsonl with "question" and "answer") where the recipes look for it.
# Usage: scripts/get_gsm8k.sh SOURCE_FOLDER [FOLDER]     copies from a folder that holds both files (default: data/gsm8k)
#        GSM8K_URL=https://.../gsm8k scripts/get_gsm8k.sh  downloads BASE/train.jsonl and BASE/test.jsonl
set -euo pipefail

folder=${2:-data/gsm8k}
mkdir -p "$folder"
for f in train.jsonl test.jsonl; do
    if [ $# -ge 1 ]; then
        cp "$1/$f" "$folder/$f.part"
    elif [ -n "${GSM8K_URL:-}" ]; then
        curl -fsSL "$GSM8K_URL/$f" -o "$folder/$f.part"
    else
        sed -n '2,4p' "$0" | sed 's/^# //' >&2
        exit 2
    fi
    head -1 "$folder/$f.part" | grep -q '"question"' || { echo "get_gsm8k.sh: $f is not GSM8K" >&2; exit 2; }
    mv "$folder/$f.part" "$folder/$f"
done
wc -l "$folder"/*.jsonl
