package snapshot

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// MayRefer says whether Gateways of one namespace may name a Secret of another: whether some ReferenceGrant there says so
// (Gateway API, ReferenceGrant.spec). A grant is for the Gateway API's Gateways or for Istio's, as its group says; Istio takes the
// former for both, and so is it here.
func (s *Snapshot) MayRefer(from, namespace, secret string) bool {
	if from == namespace {
		return true
	}
	for _, c := range s.Configs(api.ReferenceGrant) {
		if c.Namespace != namespace {
			continue
		}
		spec := &config.Spec[*gatewayv1.ReferenceGrant](c).Spec
		if slices.ContainsFunc(spec.From, func(f gatewayv1.ReferenceGrantFrom) bool { return isGateway(f) && string(f.Namespace) == from }) &&
			slices.ContainsFunc(spec.To, func(t gatewayv1.ReferenceGrantTo) bool { return isSecret(t, secret) }) {
			return true
		}
	}
	return false
}

func isGateway(f gatewayv1.ReferenceGrantFrom) bool {
	return f.Kind == "Gateway" && (f.Group == "gateway.networking.k8s.io" || f.Group == "networking.istio.io")
}

// isSecret says whether a grant opens a Secret: of that name, or all.
func isSecret(t gatewayv1.ReferenceGrantTo, name string) bool {
	return t.Group == "" && t.Kind == "Secret" && (t.Name == nil || *t.Name == "" || string(*t.Name) == name)
}
