#!/usr/bin/env bash
# Builds the documentation site (mkdocs.yml) into a directory.
#
#   hack/docs/build.sh DIR            an error, with its document, for each broken link
#   hack/docs/build.sh --serve        serves it at http://127.0.0.1:8000/, and again when a document changes
#
# MkDocs is installed with pip into a virtual environment, and Mermaid's script fetched with npm, both once, pinned by hash, into
# ${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot. Afterwards nothing needs the network.
set -euo pipefail
cd "$(dirname "$0")/../.."

mermaid_version=11.17.2
mermaid_sha256=581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8

say() { echo "docs: $*" >&2; }
die() {
  say "$*"
  exit 1
}

[[ $# -eq 1 ]] || die "usage: $0 DIR, or --serve"
[[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || die "neither XDG_CACHE_HOME nor HOME is set: nowhere to install MkDocs"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || die "Python 3.11 or later is needed"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/meshpilot"
# A change of the requirements or of Python needs another environment.
key="$({ python3 --version && cat hack/docs/requirements.txt; } | sha256sum | cut -c1-16)"
venv="$cache/mkdocs-$key"
export MERMAID="$cache/mermaid-$mermaid_version/mermaid.min.js"

# install_mkdocs creates the virtual environment. The file "complete" appears in it last.
install_mkdocs() {
  say "installing MkDocs into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv" || die "python3 -m venv failed: install python3-venv"
  "$venv/bin/python" -m pip install --quiet --retries 2 --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes --requirement hack/docs/requirements.txt || die "pip could not install the packages of hack/docs/requirements.txt"
  touch "$venv/complete"
}

# fetch_mermaid takes one file out of the package.
fetch_mermaid() {
  say "fetching Mermaid $mermaid_version into $MERMAID"
  command -v npm >/dev/null || die "npm is missing: it fetches Mermaid, which draws the diagrams"
  local tmp
  tmp="$(mktemp -d "$cache/.mermaid.XXXXXX")"
  trap 'rm -rf "$tmp"' RETURN
  npm pack --silent --pack-destination "$tmp" "mermaid@$mermaid_version" >/dev/null || die "npm could not fetch mermaid@$mermaid_version"
  tar -xzf "$tmp/mermaid-$mermaid_version.tgz" -C "$tmp" package/dist/mermaid.min.js
  echo "$mermaid_sha256  $tmp/package/dist/mermaid.min.js" | sha256sum --check --quiet || die "Mermaid $mermaid_version has another hash than is pinned"
  mkdir -p "$(dirname "$MERMAID")"
  mv "$tmp/package/dist/mermaid.min.js" "$MERMAID"
}

mkdir -p "$cache" || die "cannot create $cache"
exec 9>"$cache/.docs.lock"
flock 9
[[ -e "$venv/complete" ]] || install_mkdocs
[[ -e "$MERMAID" ]] || fetch_mermaid
flock --unlock 9

# The first keeps bytecode of the hooks out of the tree, the second an announcement of the theme's end of life (ADR 51) out of the output.
export PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1
if [[ "$1" == --serve ]]; then
  exec "$venv/bin/mkdocs" serve --dev-addr 127.0.0.1:8000
fi
exec "$venv/bin/mkdocs" build --strict --site-dir "$(realpath -m "$1")"
