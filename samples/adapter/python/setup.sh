#!/bin/sh
# Creates the virtual environment DIR for adapter.py: the packages of requirements.txt, and Python messages
# generated from the definitions of Istio's API, in the version of go.mod.
#
#   samples/adapter/python/setup.sh DIR
#
# It needs python3 and go. Set ISTIO_API to a checkout of Istio's API to do without go.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
api=${ISTIO_API:-$(cd "$here" && go mod download istio.io/api && go list -m -f '{{.Dir}}' istio.io/api)}

python3 -m venv "$1"
python="$1/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$here/requirements.txt"

# The messages that adapter.py uses, and all that these import. google/api is a part of xds-protos.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -m grpc_tools.protoc -I "$api" -I "$api/common-protos" --python_out="$packages" \
  analysis/v1alpha1/message.proto \
  mcp/v1alpha1/metadata.proto \
  mcp/v1alpha1/resource.proto \
  meta/v1alpha1/status.proto \
  networking/v1alpha3/destination_rule.proto \
  networking/v1alpha3/gateway.proto \
  networking/v1alpha3/service_entry.proto \
  networking/v1alpha3/sidecar.proto \
  networking/v1alpha3/virtual_service.proto \
  networking/v1alpha3/workload_entry.proto \
  type/v1beta1/selector.proto
