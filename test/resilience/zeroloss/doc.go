// Package zeroloss counts the requests that are lost while configuration changes: none should be.
//
// A client and two versions of a server, each behind a real sidecar with its traffic captured;
// requests of every kind, at 1,000 a second and more, with retries off in every route; and events,
// one after the other, each applied by the proxies before the next one begins.
//
//	client ── sidecar ──────────> sidecar ── server v1, at up to ten addresses
//	              |──────────────> sidecar ── server v2
//
// The host echo.mesh is served by both versions, and called with mutual TLS; dual.mesh by addresses
// that their own sidecar does not know, which passes bytes on unchanged: so a DestinationRule may
// turn TLS on and off.
//
// `make test` makes all events a few times; `make loss` does so 200 times and prints the number of
// requests by kind, and how many of them were lost. With -pilot-discovery the control plane is
// another program that takes pilot-discovery's flags, reads the same objects from --configDir, and
// answers at /ready of its --httpAddr: everything here but the detail of problems, and the events
// of policies and modes, which are seen in what sidecars have, is independent of whose it is.
//
// With -replicas 2 the client and one server have another control plane than the other server, and
// with -stall one of them stands still while modes of mutual TLS change.
//
// gateway_api_test.go does the same for a gateway that Gateway API objects configure. The events of its
// InferencePool are in gateway_pool_test.go, and its second proxy in gateway_proxies_test.go.
//
// Start reading at events_test.go; state_test.go is the state that the events change, mesh_test.go
// the mesh. Package facts tests properties of Envoy that the order of pushes relies on.
package zeroloss
