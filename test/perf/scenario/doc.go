// Package scenario contains the measured scenarios.
//
// In: a control plane, a size. Out: a report.Run for each group: one process, one mesh, one fleet,
// and scenarios one after the other. Law: a scenario ends when everything has arrived and the
// control plane is quiet again, so that none pays for another.
//
// Start with [Groups] in list.go, then bench.go and, for the most common kind of scenario,
// single.go.
package scenario
