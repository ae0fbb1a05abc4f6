package kube

import (
	"cmp"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// compareEndpoints orders the endpoints of one slice by address and ports (compareAddresses), so
// that a reordered slice produces an equal shard. An address that is listed twice has its
// healthiest endpoint first; then the names of workload, host and node decide, from which all other
// fields follow.
func compareEndpoints(a, b mesh.Endpoint) int {
	return cmp.Or(
		compareAddresses(&a, &b),
		a.Health.Compare(b.Health),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Workload, b.Workload),
		cmp.Compare(a.Hostname, b.Hostname),
		cmp.Compare(a.Node, b.Node),
	)
}

// compareAddresses orders endpoints by address, port and service port. It returns 0 for endpoints
// of which a shard has only one.
func compareAddresses(a, b *mesh.Endpoint) int {
	return cmp.Or(
		cmp.Compare(a.Address, b.Address),
		cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.ServicePort, b.ServicePort),
	)
}
