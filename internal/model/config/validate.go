package config

import (
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate finds what is wrong with one object by the rules of its API, in the order of its fields; none means valid.
//
// An Error says that the object must not be used: the API server would refuse it, or proxies could not be given what
// it asks for. A Warning leaves it in use. Only the object itself is looked at: whether a host, a subset or a gateway
// that it names exists is known to the translation, which reports it.
//
// Sources call it on every object of an Istio kind. Of Kubernetes kinds only the metadata is checked here; what their
// specs must hold is known to the registry that reads them.
func Validate(c *Config) []Problem {
	r := &report{object: c}
	r.meta()
	at := field.NewPath("spec")
	switch spec := c.Spec.(type) {
	case *networking.VirtualService:
		r.virtualService(at, spec)
	case *networking.DestinationRule:
		r.destinationRule(at, spec)
	case *networking.Gateway:
		r.gateway(at, spec)
	case *networking.ServiceEntry:
		r.serviceEntry(at, spec)
	case *networking.WorkloadEntry:
		r.workloadEntry(at, spec)
	case *networking.WorkloadGroup:
		r.workloadGroup(at, spec)
	case *networking.Sidecar:
		r.sidecar(at, spec)
	case *networking.EnvoyFilter:
		r.envoyFilter(at, spec)
	case *networkingv1beta1.ProxyConfig:
		r.proxyConfig(at, spec)
	case *security.AuthorizationPolicy:
		r.authorizationPolicy(at, spec)
	case *security.PeerAuthentication:
		r.peerAuthentication(at, spec)
	case *security.RequestAuthentication:
		r.requestAuthentication(at, spec)
	case *telemetry.Telemetry:
		r.telemetry(at, spec)
	case *extensions.WasmPlugin:
		r.wasmPlugin(at, spec)
	case *extensions.TrafficExtension:
		r.trafficExtension(at, spec)
	}
	return r.problems
}
