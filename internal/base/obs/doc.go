// Package obs holds what makes the programs observable: logs in Istio's text layout with a level
// per scope, build information, and Prometheus metrics under the names of Istio's dashboards.
//
// It returns loggers and collectors. Invariants: only loggers and collectors have state that a
// program creates. A log record is one line of printable characters, whatever its message and
// values contain, and each of them is bounded, so that clients and users can neither forge lines
// nor fill a disk with one.
//
// Start with [NewLogs] in log.go. log_quote.go and log_json.go keep records on one line; metrics.go
// is the table of metric names.
package obs
