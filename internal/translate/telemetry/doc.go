// Package telemetry generates the observability parts of listeners: access logs, traces and
// metrics.
//
// The inputs are a View with the Telemetry objects that apply to its proxies, the MeshConfig, and
// the services of providers. The output is a [Telemetry]: what connection managers and TCP proxies
// contain, once for the workload's calls (client) and once for the calls that it serves (server).
// Equal inputs yield the same pointer. The output does not differ between proxies of one View: what
// identifies a proxy comes from its own environment and node when Envoy loads the configuration.
//
//	telemetry.go         the output, and its cache key
//	provider.go service.go
//	                     extensionProviders by name, and the clusters of their services
//	choice.go            which entries of which objects apply to a side
//	access_log*.go       access logs: to files, to gRPC services (ALS), to OpenTelemetry
//	tracing*.go          spans: sampling, tags, and the tracers Zipkin, OpenTelemetry, SkyWalking, Datadog
//	metric*.go           Istio's standard metrics, by Envoy's stats access logger (ADR 13)
//	honoured.go          fields without effect, and why
//
// Start with [Table.For] in telemetry.go.
package telemetry
