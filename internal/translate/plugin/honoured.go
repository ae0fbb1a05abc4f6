package plugin

import (
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
)

// Unhonoured gives what of a WasmPlugin or a TrafficExtension has no effect, as Warnings without Key and Origin.
func Unhonoured(c *config.Config) []config.Problem {
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(found, config.Problem{Field: field, Reason: reason, Severity: config.Warning})
	}
	if c.Kind == api.WasmPlugin {
		spec := config.Spec[*extensions.WasmPlugin](c)
		if spec.GetVerificationKey() != "" {
			warn("spec.verificationKey", notVerified)
		}
		if spec.GetImagePullSecret() != "" {
			warn("spec.imagePullSecret", noSecret)
		}
		return found
	}
	wasm := config.Spec[*extensions.TrafficExtension](c).GetWasm()
	if wasm.GetVerificationKey() != "" {
		warn("spec.wasm.verificationKey", notVerified)
	}
	if wasm.GetImagePullSecret() != "" {
		warn("spec.wasm.imagePullSecret", noSecret)
	}
	return found
}

const (
	notVerified = "has no effect: signatures are not looked at; give the checksum (sha256)"
	noSecret    = "pull secrets are not passed on yet: proxies do as when the module cannot be had (failStrategy)"
)
