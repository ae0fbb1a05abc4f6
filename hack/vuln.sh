#!/usr/bin/env bash
# Runs govulncheck of the version given on everything. Exit codes: 0 nothing found, 3 vulnerabilities found (listed on standard
# output), 2 the check could not be made, with one line on standard error that says why.
set -uo pipefail
version=$1
go=${GO:-go}
database=${GOVULNDB:-https://vuln.go.dev}

if [[ $database != file://* ]] && ! curl --silent --fail --location --max-time 20 --output /dev/null "$database/index/db.json"; then
	echo "vuln: not checked: the vulnerability database $database cannot be reached from this machine (GOVULNDB=file:///path names a copy)" >&2
	exit 2
fi
if ! "$go" mod download "golang.org/x/vuln@$version" 2>/dev/null; then
	echo "vuln: not checked: golang.org/x/vuln $version cannot be fetched" >&2
	exit 2
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$go" run "golang.org/x/vuln/cmd/govulncheck@$version" -db "$database" ./... >"$out" 2>&1
code=$?
cat "$out"
exit $code
