// Package pushtrace reports how changes were pushed after the fact: a trace of each push for
// OpenTelemetry, and a log entry for each slow one.
//
// The input is the record of the last changes in package push. The outputs are spans and log
// entries. A trace has one span for the push and one for each of its phases:
//
//	push         |-----------------------------------------|   causes, proxies, acknowledged, rejected
//	  collect    |------|                                      changes are collected into one push
//	  generate          |---------|                            resources, by type
//	  distribute                  |---*------------------*|     first and last acknowledgement, rejections
//
// Invariants: pushes do no work for this package. It looks at the record once a second, and only if
// the record has changed or a proxy has not answered. Without a Tracer and a threshold nothing
// runs.
//
// Start with [Observer] in observer.go; trace.go has the spans, slow.go the log entry, provider.go
// the connection to a collector.
package pushtrace
