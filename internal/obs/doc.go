// Package obs is how the programs tell what they do: logs in Istio's text layout with levels per scope, build information,
// and Prometheus metrics under the names that Istio's users have dashboards for.
//
// In: nothing. Out: loggers and collectors. Law: imports nothing of ours; the only state is that of the collectors and levels
// that a program makes for itself.
//
// Start with [NewLogs] in log.go; metrics.go is the table of metric names.
package obs
