// Package agent implements pilot-agent: it starts Envoy, provides its identity and configuration,
// reports its readiness, and drains and stops it.
//
// The inputs are environment variables, files and flags. The outputs are a supervised Envoy, the
// Unix sockets for its secrets and configuration, the status port 15020, the DNS proxy 15053, and
// the control plane's debug pages at 15004.
//
// Invariants: the agent and its Envoy end together. If Envoy exits, the agent exits with its
// status. If the agent is to end, it drains Envoy first, and everything that Envoy needs keeps
// running until it has exited. With hot restart (restart.go) a new Envoy may take over from the
// current one, which then drains.
//
// Start with [Run] in agent.go, then parts.go (what runs beside Envoy), prepare.go (Envoy's
// bootstrap and arguments) and shutdown.go. The parts have their own packages, in the order of
// their dependencies: environment, proxyconfig and node (the inputs), bootstrap (Envoy's
// configuration file), envoy (the process), controlplane and outbound (connections), secret,
// identity and sds (certificates), relay (the xDS proxy), wasm (modules of extensions), dns (the
// DNS proxy), probe (the application's health), status (the status port), command (the command
// line).
package agent
