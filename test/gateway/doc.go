// Package gateway holds the test of gateways as a whole: the real programs and a real Envoy on loopback addresses, as on a laptop,
// called as clients from outside the mesh would.
//
// main_test.go starts them; each test writes its own files into the folder that the control plane reads.
package gateway
