package config

import (
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns the Problems of one object by the rules of its API, in the order of its fields.
// A valid object has none.
//
// An Error means that the object must not be used, because the API server would refuse it or
// proxies cannot apply it. An object with only Warnings is used. Validate reads nothing but the
// object itself. Whether a referenced host, subset or gateway exists is checked, and reported, by
// the translation.
//
// Sources call Validate for every object of an Istio kind. For Kubernetes kinds, it checks only the
// metadata; the registry that reads their specs checks these.
func Validate(c *Config) []Problem {
	r := &report{object: c}
	r.checkMeta()
	at := field.NewPath("spec")
	switch spec := c.Spec.(type) {
	case *networking.VirtualService:
		r.checkVirtualService(at, spec)
	case *networking.DestinationRule:
		r.checkDestinationRule(at, spec)
	case *networking.Gateway:
		r.checkGateway(at, spec)
	case *networking.ServiceEntry:
		r.checkServiceEntry(at, spec)
	case *networking.WorkloadEntry:
		r.checkWorkloadEntry(at, spec)
	case *networking.WorkloadGroup:
		r.checkWorkloadGroup(at, spec)
	case *networking.Sidecar:
		r.checkSidecar(at, spec)
	case *networking.EnvoyFilter:
		r.checkEnvoyFilter(at, spec)
	case *networkingv1beta1.ProxyConfig:
		r.checkProxyConfig(at, spec)
	case *security.AuthorizationPolicy:
		r.checkAuthorizationPolicy(at, spec)
	case *security.PeerAuthentication:
		r.checkPeerAuthentication(at, spec)
	case *security.RequestAuthentication:
		r.checkRequestAuthentication(at, spec)
	case *telemetry.Telemetry:
		r.checkTelemetry(at, spec)
	case *extensions.WasmPlugin:
		r.checkWasmPlugin(at, spec)
	case *extensions.TrafficExtension:
		r.checkTrafficExtension(at, spec)
	}
	return r.problems
}
