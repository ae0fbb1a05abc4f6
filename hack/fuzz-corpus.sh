#!/usr/bin/env bash
# Keeps inputs that fuzzing found: copies them from Go's cache, where `make fuzz` leaves what reached new code, into testdata/fuzz
# beside each target. Everyday tests run kept inputs, and fuzzing starts from them.
#
#   hack/fuzz-corpus.sh [DIRECTORY]    DIRECTORY is Go's cache of fuzzing, by default $(go env GOCACHE)/fuzz
#
# A target keeps ten inputs at most, each of 4 KiB at most, spread over the sizes that were found. A target that has ten already is left
# alone, so another run adds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
most=10 bytes=4096
module=$(go list -m)
cache=${1:-$(go env GOCACHE)/fuzz}/$module
targets=0 copied=0
without=()

while read -r file target; do
  targets=$((targets + 1))
  dir=$(dirname "$file")
  kept=$dir/testdata/fuzz/$target
  have=0
  [[ -d $kept ]] && have=$(find "$kept" -type f | wc -l)
  if ((have < most)) && [[ -d $cache/$dir/$target ]]; then
    mapfile -t found < <(find "$cache/$dir/$target" -type f -size -"$((bytes + 1))"c -printf '%s %p\n' | sort -n | cut -d' ' -f2-)
    free=$((most - have)) n=${#found[@]}
    for ((i = 0; i < n && i < free; i++)); do
      input=${found[i * n / (n < free ? n : free)]}
      [[ -e $kept/$(basename "$input") ]] && continue
      mkdir -p "$kept"
      cp "$input" "$kept/"
      copied=$((copied + 1))
    done
    [[ -d $kept ]] && have=$(find "$kept" -type f | wc -l)
  fi
  ((have > 0)) || without+=("$dir $target")
done < <(grep -rE '^func Fuzz' --include='*_test.go' internal samples test | sed -nE 's/^([^:]*):func (Fuzz[A-Za-z0-9]*)\(.*/\1 \2/p' | sort)

echo "$targets targets, $copied inputs copied, ${#without[@]} targets without kept inputs"
((${#without[@]} == 0)) || printf '  %s\n' "${without[@]}"
