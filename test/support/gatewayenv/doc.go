// Package gatewayenv runs a control plane that reads files, and a gateway of it, for tests:
// pilot-discovery, pilot-agent and Envoy as real processes on loopback addresses.
//
// In: flags and environment of the control plane, and the files of its folder. Out: a gateway that
// is ready, until the test ends; logs of what failed.
//
// Start with [Start].
package gatewayenv
