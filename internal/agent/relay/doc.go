// Package relay is the agent's xDS proxy: it accepts Envoy's ADS streams on a Unix socket and
// forwards them to the control plane over TLS.
//
// Each stream of Envoy, SotW or delta, has its own stream to the control plane. Messages are
// forwarded in order and byte for byte, with these exceptions: resources of Wasm extensions are
// rewritten to local files, and follow in later responses if their modules must be fetched first;
// and the agent uses the stream for its own subscriptions (name table, ProxyConfig), the workload's
// health and debug requests.
//
// Invariants: a stream of Envoy ends exactly when its upstream stream ends. Reading never waits for
// writing: requests are queued and, if there are many, merged, so that two ends that block on
// writing never deadlock, and memory is bounded.
//
// Start with [Relay] in relay.go, then session.go (one stream), queue.go (pending requests) and
// protocol.go (message formats). extensions.go converts extensions, subscription.go has the agent's
// own subscriptions, debug_server.go the local debug server.
package relay
