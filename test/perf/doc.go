// Package perf measures the cost of the control plane. docs/BENCHMARKS.md explains the figures and
// how to read them.
//
// In: a control plane's binary, or the rooms of this repository. Out: CPU time, bytes, messages,
// allocations, memory and latencies, as JSON and tables.
//
// Two kinds of measurement are here. cmd/meshbench runs a real control plane process and a fleet of
// simulated proxies over real gRPC: workload makes the mesh, feed brings it to the control plane,
// target runs that, fleet plays the proxies in terms of wire, scenario is the list of steps, report
// prints the results. In place of the control plane, replay is a server that only writes its
// responses. The Go benchmarks of this package itself cover parts that span packages, and figures
// that can only be measured without sockets, with the control plane that inmemory puts together.
//
// cmd/dataplanebench measures the other side: what configuration costs a proxy (package dataplane).
// Package guard keeps recorded figures from growing.
//
// Start with scenario/list.go.
package perf
