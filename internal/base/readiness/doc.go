// Package readiness tracks whether a control plane can serve proxies and, if not, why. It serves
// /ready.
//
// Inputs: the feeds that are not in sync, with their reasons; holds of other components; the state
// of the xDS port. Output: status 200 if ready, and otherwise 503 with all reasons.
//
// Invariant: [State.Synced] is closed once, when all feeds are in sync. The xDS port opens after
// that.
//
// Start with [State] in state.go.
package readiness
