//go:build tools

// Package suite pins the conformance suite of the Gateway API. Its tests and its server echo-basic are built from it.
package suite

import (
	_ "sigs.k8s.io/gateway-api/conformance"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic/grpcechoserver"
)
