// Package unread contains the table of istiod's environment variables that this control plane does
// not read, each with istiod's default and the behaviour here.
//
// The input is none; the output is the table ([Groups]), a lookup in it ([Find]) and a section of
// docs/ENVIRONMENT.md ([Section]). It is pure data and imports no other package of this module. Every
// variable of istiod is either read by pilot-discovery or in this table; a test in
// cmd/pilot-discovery checks that.
//
// The readers are pilot-discovery, which warns at start about values that have no effect, and
// pilotctl check-migration (internal/diagnostics/migration).
//
// Start with table.go.
package unread
