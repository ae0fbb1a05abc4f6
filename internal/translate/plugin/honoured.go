package plugin

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Unhonoured returns a Warning, without Key and Origin, for each Wasm setting of a WasmPlugin or
// TrafficExtension that has no effect. These are verificationKey, and imagePullSecret if the module
// is no image. It returns nil if there is none, and for Lua.
func Unhonoured(c *config.Config) []config.Problem {
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(found, config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason,
			Severity: config.Warning})
	}
	spec, at := wasmOf(c), "spec."
	if c.Kind == api.TrafficExtension {
		at += "wasm."
	}
	if spec == nil {
		return nil
	}
	if spec.GetVerificationKey() != "" {
		warn(
			at+"verificationKey",
			"has no effect, as in Istio, whose API does not say yet how modules are signed; give the checksum (sha256)",
		)
	}
	if spec.GetImagePullSecret() != "" && !isImage(spec) {
		warn(at+"imagePullSecret", "has no effect: it is for images of registries (oci://)")
	}
	return found
}
