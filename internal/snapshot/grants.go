package snapshot

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

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
	for _, c := range s.Configs(api.ReferenceGrant) {
		if c.Namespace != namespace {
			continue
		}
		spec := &config.Spec[*gatewayv1.ReferenceGrant](c).Spec
		if slices.ContainsFunc(
			spec.From,
			func(f gatewayv1.ReferenceGrantFrom) bool { return grantsGateway(f) && string(f.Namespace) == from },
		) &&
			slices.ContainsFunc(spec.To, func(t gatewayv1.ReferenceGrantTo) bool { return grantsSecret(t, secret) }) {
			return true
		}
	}
	return false
}

// grantsGateway reports whether a grant allows references from Gateways.
func grantsGateway(f gatewayv1.ReferenceGrantFrom) bool {
	return f.Kind == "Gateway" && (f.Group == "gateway.networking.k8s.io" || f.Group == "networking.istio.io")
}

// grantsSecret reports whether a grant allows references to a Secret: by its name, or to all
// Secrets.
func grantsSecret(t gatewayv1.ReferenceGrantTo, name string) bool {
	return t.Group == "" && t.Kind == "Secret" && (t.Name == nil || *t.Name == "" || string(*t.Name) == name)
}
