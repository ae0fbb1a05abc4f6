// Package garbage sends what no client of theirs would to every port of both programs, pilot-discovery and pilot-agent with its
// Envoy, all at once: noise, half handshakes, slow clients, huge headers and bodies, HTTP/2 that is reset, flooded or continued for
// ever, gRPC of nonsense, DNS of nonsense. Afterwards memory and goroutines are as before, and both serve.
//
// `make test` has it last some seconds. MESHPILOT_GARBAGE=10m (`make garbage`) makes it longer, and then holds that memory does not grow
// either.
package garbage
