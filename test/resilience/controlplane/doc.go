// Package controlplane tests the guarantees of the control plane under load and faults, at the
// sizes of docs/SCORECARD.md.
//
// The tests run a real control plane process. Most connect a fleet of simulated proxies
// (test/perf) and judge the figures of a scenario: herds, slow clients, churn, steady load.
// TestNoUpdateIsLost kills, stops and pauses replicas while configuration changes, records every
// operation and what every proxy was sent, and has package history prove that nothing was lost,
// reordered or mixed.
//
// Start with lab_test.go. `make scorecard CHECKS=1,2,3` runs some of them at other sizes.
package controlplane
