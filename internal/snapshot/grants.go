package snapshot

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// IsReferenceGranted reports whether Gateways in namespace from may reference a Secret of another
// namespace: always in their own namespace, otherwise only if a ReferenceGrant there allows it. A
// grant can name Gateways of the Gateway API or of Istio; like Istio, either allows both.
func (s *Snapshot) IsReferenceGranted(from, namespace, secret string) bool {
	if from == namespace {
		return true
	}
	to := config.Key{Kind: api.Secret, Namespace: namespace, Name: secret}
	for _, c := range s.Configs(api.ReferenceGrant) {
		if c.Namespace == namespace && config.GrantsReference(c, from, isGateway, to) {
			return true
		}
	}
	return false
}

// isGateway reports whether a group and kind are exactly the Gateway of the Gateway API or of
// Istio.
func isGateway(group, kind string) bool {
	return kind == "Gateway" && (group == "gateway.networking.k8s.io" || group == "networking.istio.io")
}
