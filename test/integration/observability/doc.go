// Package observability tests the alerts and their runbooks: every metric and label that an alert
// names exists, every alert has a runbook and a unit test, and promtool passes (make observability).
//
// Inputs: manifests/charts/istiod/monitoring, docs/runbooks and the tables of metrics in docs.
package observability
