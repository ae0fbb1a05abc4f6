#!/usr/bin/env bash
# Writes the charts as plain manifests, for `kubectl apply --server-side -f`:
#
#   hack/manifests.sh DIRECTORY [--set KEY=VALUE]...
#
# base.yaml are the kinds, istiod.yaml the control plane in istio-system (--set is for it), gateway.yaml a gateway in istio-ingress,
# cni.yaml the CNI plugin, for a control plane with --set cni.enabled=true.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${1:?usage: hack/manifests.sh DIRECTORY [--set KEY=VALUE]...}
shift
helm=$(go run ./test/support/cluster/cmd/meshcluster program helm)
hack/crds.sh manifests/charts/base/files/crds.yaml
mkdir -p "$dir"
namespace() { printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n' "$1"; }
"$helm" template istio-base manifests/charts/base >"$dir/base.yaml"
{
  namespace istio-system
  "$helm" template istiod manifests/charts/istiod -n istio-system --skip-tests "$@"
} >"$dir/istiod.yaml"
{
  namespace istio-ingress
  "$helm" template istio-ingressgateway manifests/charts/gateway -n istio-ingress
} >"$dir/gateway.yaml"
"$helm" template istio-cni manifests/charts/cni -n istio-system >"$dir/cni.yaml"
