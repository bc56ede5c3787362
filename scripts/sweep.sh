#!/usr/bin/env bash
# Runs several recipes, or a grid of values, one after another; a run folder each and one table of results at the end.
#
#   scripts/sweep.sh [-o FOLDER] RECIPE... [-- KEY=V1,V2,... ...]
#   scripts/sweep.sh configs/quickstart.yaml configs/quickstart-bf16.yaml
#   scripts/sweep.sh -o runs/lr configs/quickstart.yaml -- optimizer.lr=3e-4,5e-4 seed=1,2,3
#
# Every recipe meets every combination of the values. A run that is already complete is not run again; a failed run is named
# in the table and the sweep goes on. FP8RL names the binary (default: build/fp8rl).
set -uo pipefail

usage() { sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; }
fp8rl=${FP8RL:-$(dirname "$0")/../build/fp8rl}
out=runs/sweep
recipes=() grid=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        -o) out=${2:?-o needs a folder}; shift ;;
        --) shift; grid=("$@"); break ;;
        -*) echo "sweep.sh: unknown option $1" >&2; exit 2 ;;
        *) recipes+=("$1") ;;
    esac
    shift
done
[ ${#recipes[@]} -gt 0 ] || { usage >&2; exit 2; }
[ -x "$fp8rl" ] || { echo "sweep.sh: $fp8rl is not there; build first, or set FP8RL" >&2; exit 2; }

combinations=("")
for entry in "${grid[@]}"; do
    [[ $entry == *=* ]] || { echo "sweep.sh: $entry is not KEY=V1,V2" >&2; exit 2; }
    key=${entry%%=*} next=()
    IFS=, read -ra values <<<"${entry#*=}"
    for c in "${combinations[@]}"; do
        for v in "${values[@]}"; do next+=("$c $key=$v"); done
    done
    combinations=("${next[@]}")
done

# Every recipe is checked before the first run starts.
for r in "${recipes[@]}"; do
    for c in "${combinations[@]}"; do
        sets=(); for s in $c; do sets+=(--set "$s"); done
        "$fp8rl" recipe check "$r" "${sets[@]}" >/dev/null || exit 2
    done
done

mkdir -p "$out"
rows=() failed=0
for r in "${recipes[@]}"; do
    for c in "${combinations[@]}"; do
        name=$(basename "${r%.*}")
        sets=()
        for s in $c; do sets+=(--set "$s"); name+="_${s##*.}"; done
        name=${name//[^A-Za-z0-9_.=+-]/_}
        dir=$out/$name
        if [ ! -f "$dir/summary.json" ]; then
            echo "== $name" >&2
            "$fp8rl" train "$r" "${sets[@]}" --set "checkpoint.dir=$dir" --overwrite --metrics json >"$out/$name.log"
            code=$?
            [ $code = 130 ] && { echo "sweep.sh: interrupted" >&2; exit 130; }
            [ $code = 0 ] || failed=1
        else
            code=0
        fi
        rows+=("$name|$code|$dir")
    done
done

value() { grep -o "\"$2\": *[^,}]*" "$1/summary.json" 2>/dev/null | head -1 | sed 's/.*: *//'; }
printf '%-48s %6s %8s %8s %8s %12s %9s\n' run exit first last best mismatch seconds
for row in "${rows[@]}"; do
    IFS='|' read -r name code dir <<<"$row"
    if [ "$code" = 0 ]; then
        printf '%-48s %6s %8.4f %8.4f %8.4f %12s %9.1f\n' "$name" "$code" "$(value "$dir" validation/accuracy_first)" \
            "$(value "$dir" validation/accuracy_last)" "$(value "$dir" validation/accuracy_best)" \
            "$(value "$dir" mismatch/max_abs)" "$(value "$dir" seconds)"
    else
        printf '%-48s %6s %s\n' "$name" "$code" "failed: see $out/$name.log and the messages above"
    fi
done
exit $failed
