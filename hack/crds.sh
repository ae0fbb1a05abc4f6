#!/usr/bin/env bash
# Writes the custom resource definitions of the pinned istio.io/api, one YAML document each, to the file named.
#
#   hack/crds.sh manifests/charts/base/files/crds.yaml
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?usage: hack/crds.sh FILE}
go mod download istio.io/api
module=$(go list -m -f '{{.Dir}}' istio.io/api)
mkdir -p "$(dirname "$out")"
install -m 644 "$module/kubernetes/customresourcedefinitions.gen.yaml" "$out.tmp"
mv "$out.tmp" "$out"
