package translate

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/patch"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/translate/route"
)

// Unhonoured gives what of an object's spec the generators do not follow, as Warnings without Key and Origin. A kind that
// is not in the list shapes nothing here, or is followed whole.
func Unhonoured(c *config.Config) []config.Problem {
	switch c.Kind {
	case api.DestinationRule:
		return cluster.Unhonoured(config.Spec[*networking.DestinationRule](c))
	case api.VirtualService:
		spec := config.Spec[*networking.VirtualService](c)
		return append(route.Unhonoured(spec), delegates(spec)...)
	case api.EnvoyFilter:
		return patch.Check(config.Spec[*networking.EnvoyFilter](c))
	case api.Sidecar:
		return listener.UnhonouredSidecar(config.Spec[*networking.Sidecar](c))
	default:
		return nil
	}
}

// UnhonouredMesh gives what of a MeshConfig is not followed, as Warnings without Key and Origin.
func UnhonouredMesh(m *meshconfig.MeshConfig) []config.Problem {
	found := append(listener.UnhonouredMesh(m), proxyconfig.Problems(m)...)
	message := m.ProtoReflect()
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if reason := meshLater(f.JSONName()); reason != "" && message.Has(f) {
			found = append(found, config.Problem{Field: f.JSONName(), Reason: reason, Severity: config.Warning})
		}
	}
	return found
}

// meshLater says why a field of MeshConfig that is no matter of listeners has no effect yet; "" for the others.
func meshLater(field string) string {
	switch field {
	case "trustDomainAliases", "caCertificates", "certificates", "ca", "verifyCertificateAtClient":
		return "there is no certificate authority yet, and calls between proxies are not authenticated"
	case "discoverySelectors", "serviceSettings", "serviceScopeConfigs", "serviceEntryVisibility", "zoneAwareLbSetting", "extensionProviders":
		return "this field is not honoured yet"
	default:
		return ""
	}
}

// delegates names the routes that are left to another VirtualService.
func delegates(spec *networking.VirtualService) []config.Problem {
	var list []config.Problem
	for i, r := range spec.GetHttp() {
		if r.GetDelegate() != nil {
			list = append(list, config.Problem{
				Field: fmt.Sprintf("spec.http[%d].delegate", i), Reason: "delegates are not followed yet: the route is left out", Severity: config.Warning,
			})
		}
	}
	return list
}
