// Package obs is how the programs tell what they do: logs in Istio's text layout with levels per scope, build information,
// and Prometheus metrics under the names that Istio's users have dashboards for.
//
// In: nothing. Out: loggers and collectors. Invariants: the only state is that of the collectors and levels that a program makes for
// itself. A log record is one line of printable characters, whatever its message and values contain, and each of them has a bound:
// clients, users and other programs cannot write lines of their own, nor fill a disk with one.
//
// Start with [NewLogs] in log.go; log_quote.go and log_json.go keep records on one line; metrics.go is the table of metric names.
package obs
