// Package dataplane measures what the configuration of a control plane costs the proxies that
// receive it: memory, start-up and bytes of a sidecar in a mesh of many services, and the latency
// and CPU time of requests between two sidecars.
//
// The inputs are the programs of control planes, among them istiod's, and an Envoy. All control
// planes read the same generated mesh and configure the same Envoy with the same bootstrap, which is
// that of pilot-agent. The outputs are measurements, and their medians as Markdown.
//
// Invariants: the program must run in a sandbox of package netns, because the ports of sidecars are
// fixed. Control planes are measured in turns, so that other load on the machine affects all of them.
//
// Start with [MeasureSizes] in run.go and [MeasureLoads] in run_load.go. mesh.go writes the mesh, plane.go
// starts control planes, sidecar.go Envoy; size.go measures one sidecar. pair.go starts a client and a
// server with sidecars, echo.go the server's application; load.go sends requests, in the protocols of
// protocol.go.
package dataplane
