package destination

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// UDPShares returns the first VirtualService with a TCP route that is bound to the UDP server s,
// and the destinations of its first TCP route. Both are nil if there is none. The Cluster of a
// share is zero if its service is not in the View or has no such UDP port: these datagrams are
// dropped.
func UDPShares(v *view.View, s *view.GatewayServer) (*snapshot.VirtualService, []Share) {
	for _, vs := range v.VirtualServicesOf(s.Gateway) {
		if len(vs.Spec.GetTcp()) == 0 || !s.ServesHostOf(vs) {
			continue
		}
		shares := Shares(v, vs, vs.Spec.GetTcp()[0].GetRoute(), s.Port())
		for i := range shares {
			n := &shares[i].Cluster
			n.Direction = mesh.OutboundUDP
			if svc := v.Service(n.Host); svc == nil {
				*n = mesh.ClusterName{}
			} else if _, ok := svc.ClusterPort(*n); !ok {
				*n = mesh.ClusterName{}
			}
		}
		return vs, shares
	}
	return nil, nil
}
