// Package randomconfig tests that Envoy accepts everything that validation accepts, and that
// nothing panics.
//
// In: random objects of every kind, made valid by taking away what validation names, many together
// in one mesh. Out: a real Envoy's word on all that the proxies of the mesh are sent. A mesh that
// is refused is cut down to the objects that it takes, and printed.
//
//	go test ./test/conformance/randomconfig -meshes 500 -seed 7    # longer, and other ones
//
// Start with TestEnvoyAcceptsValidRandomConfig in random_test.go.
package randomconfig
