// Package cli is pilotctl: what a control plane's debug pages say, for people at a terminal.
//
// In: the address of a control plane's HTTP port. Out: tables, or the JSON as it came. Law: asks and never changes; needs no
// Kubernetes and no rights but to reach the port.
//
// Start with [New].
package cli
