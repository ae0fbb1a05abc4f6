// Package relay stands between Envoy and the control plane: it takes Envoy's ADS stream over a Unix socket, and carries it to a
// control plane over TLS.
//
// In: streams, SotW and delta. Out: the same messages on a stream of their own to a control plane, byte for byte and in order;
// but for what the agent answers or asks itself (names, the mesh's settings, the workload's health, debug pages) and Wasm
// modules, which it fetches first.
// Law: a stream of Envoy lives as long as its stream to the control plane, no longer and no shorter. Reading never waits for
// writing: what Envoy asks for is kept, joined where it is much, so that both ends can block and neither does for ever.
//
// Start with [Relay] in relay.go, then session.go (one stream), queue.go (what waits) and form.go (what the relay knows of
// messages). own.go is what the agent asks for itself.
package relay
