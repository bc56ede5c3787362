#!/usr/bin/env bash
# Puts GSM8K (MIT licence; train.jsonl and test.jsonl with "question" and "answer") where the recipes look for it.
# Usage: scripts/get_gsm8k.sh                      downloads both files from the authors' repository (needs curl)
#        scripts/get_gsm8k.sh SOURCE_FOLDER        copies them from a folder that holds both
set -euo pipefail

folder=data/gsm8k
base=https://raw.githubusercontent.com/openai/grade-school-math/master/grade_school_math/data
mkdir -p "$folder"
for f in train.jsonl test.jsonl; do
    if [ $# -ge 1 ]; then
        cp "$1/$f" "$folder/$f.part"
    else
        curl -fsSL "$base/$f" -o "$folder/$f.part" || { echo "get_gsm8k.sh: $f could not be downloaded" >&2; exit 2; }
    fi
    head -1 "$folder/$f.part" | grep -q '"question"' || { echo "get_gsm8k.sh: $f is not GSM8K" >&2; exit 2; }
    mv "$folder/$f.part" "$folder/$f"
done
wc -l "$folder"/*.jsonl
