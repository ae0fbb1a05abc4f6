#!/usr/bin/env bash
# Writes a release twice, each from a clone of its own below DIRECTORY, and compares the checksums.
#
#   hack/release/check.sh VERSION DIRECTORY [FLAGS OF hack/release]...
#
# With COLD=1 the second run has an empty build cache, so that nothing of the first one's is used.
set -euo pipefail
version=${1:?usage: hack/release/check.sh VERSION DIRECTORY [FLAG]...}
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
go=${GO:-go}
root=$(git rev-parse --show-toplevel)
commit=$(git rev-parse HEAD)
for run in first second; do
  rm -rf "${dir:?}/$run"
  git clone --quiet --no-hardlinks "$root" "$dir/$run/checkout-$run"
  git -C "$dir/$run/checkout-$run" checkout --quiet --detach "$commit" # the branch may move meanwhile
  if [[ $run == second && -n "${COLD:-}" ]]; then export GOCACHE=$dir/second/cache; fi
  (cd "$dir/$run/checkout-$run" && "$go" run ./hack/release --version "$version" --out "$dir/$run/release" "$@")
done
diff "$dir/first/release/SHA256SUMS" "$dir/second/release/SHA256SUMS"
echo "release-check: $(wc -l <"$dir/first/release/SHA256SUMS") files are equal in both runs"
