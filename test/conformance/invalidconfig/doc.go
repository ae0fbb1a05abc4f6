// Package invalidconfig tests how mistakes in users' objects are handled: a Problem names the
// object and the field, and everything else is applied.
//
// In: a good mesh, good.yaml, and cases of one bad thing each, by kind, in testdata. Out: the
// Problems that the bad thing adds, which stand beside it; and the check that every resource that
// the bad objects have no part in stays as it was, byte by byte, for proxies of each type.
//
// Mistakes in objects of the Gateway API are tables in wrong_gateways_test.go and wrong_routes_test.go:
// for each, the Problem and the condition of its status that must name it, also on a real API server.
//
//	go test ./test/conformance/invalidconfig -update # rewrites the Problems; read the diff
//
// Start with TestNothingElseIsLost in badinput_test.go.
package invalidconfig
