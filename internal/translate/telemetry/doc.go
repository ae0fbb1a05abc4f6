// Package telemetry says what proxies tell of the traffic that passes them: access logs, traces and metrics.
//
// In: a View, of it the Telemetry objects that hold for its proxies, the MeshConfig, and the services that providers are.
// Out: a [Telemetry], with what connection managers and TCP proxies have in them for it, once for the workload's calls
// (client) and once for those that it serves (server). Law: pure; the same objects and services give the same value, by
// pointer; nothing in it differs between proxies of one View, not even their names: what a proxy says of itself comes from
// its own environment and node when Envoy reads the configuration.
//
//	telemetry.go         the value, and what it is remembered by
//	provider.go service.go
//	                     extensionProviders by name, and the clusters of their services
//	choice.go            which entries of which objects hold for a side
//	access_log*.go       access logs: to files, to gRPC services (ALS), to OpenTelemetry
//	tracing*.go          spans: sampling, tags, and the tracers Zipkin, OpenTelemetry, SkyWalking, Datadog
//	metric*.go           Istio's standard metrics, by Envoy's stats access logger (ADR 13)
//	honoured.go          what is not followed, and why
//
// Start with [Table.For] in telemetry.go.
package telemetry
