// Package gateway tests gateways end to end: the real programs and a real Envoy on loopback
// addresses, as on a laptop, called as clients from outside the mesh would.
//
// Package test/support/gatewayenv starts them; each test writes its own files into the folder that
// the control plane reads. Start with gateway_test.go.
package gateway
