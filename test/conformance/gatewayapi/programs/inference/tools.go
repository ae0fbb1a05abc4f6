//go:build tools

// Package inference pins the conformance suite of the Gateway API Inference Extension and its
// reference endpoint picker.
package inference

import (
	_ "sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"
	_ "sigs.k8s.io/gateway-api-inference-extension/conformance"
)
