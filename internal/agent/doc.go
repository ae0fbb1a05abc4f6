// Package agent is pilot-agent: it starts an Envoy, gets it its identity and configuration, says whether it is ready, and ends it
// gracefully.
//
// In: environment variables, files and flags. Out: one supervised Envoy, the sockets that it gets secrets and configuration from,
// the status port 15020, the DNS proxy 15053, and the control plane's debug pages at 15004.
// Law: one Envoy, and the two live and end together: when Envoy ends, the agent ends with its status; when the agent is told to end, it
// drains Envoy first, and everything that Envoy may need goes on until it is gone. With hot restart (restart.go) another Envoy may
// take over from the one before, which then drains.
//
// Start with [Run] in agent.go, then parts.go (what runs beside Envoy), prepare.go (what Envoy is started with) and shutdown.go.
// The parts have packages of their own, in the order in which they depend on each other: environment, proxyconfig and node (who
// we are), bootstrap (the file), envoy (the process), controlplane and outbound (how others are reached), secret, identity and
// sds (certificates), relay (configuration), wasm (modules of extensions), dns (names), probe (the application's health), status
// (the port), command (the command line).
package agent
