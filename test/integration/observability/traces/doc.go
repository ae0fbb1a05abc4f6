// Package traces tests the OpenTelemetry traces of pushes: a control plane with simulated sidecars
// exports them, by gRPC and by HTTP, to a receiver that implements OTLP's collector service.
//
// Start reading at traces_test.go; receiver_test.go is the collector.
package traces
