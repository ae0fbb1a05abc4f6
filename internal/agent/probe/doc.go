// Package probe asks the application whether it is well, on behalf of kubelet (whose own probes would run into the proxy and its
// mutual TLS) or of the control plane (for workloads that no kubelet watches).
//
// In: what kubelet would have asked, as the injector writes it down, or a WorkloadGroup's readiness probe. Out: answers at the
// status port, or word of each change of the workload's health.
// Law: a probe comes from the address that capture lets pass, goes to the workload's own address, ends within its timeout, and
// reads no more of an answer than it shows.
//
// Start with [Probe] in probe.go; handler.go serves kubelet, monitor.go watches for the control plane.
package probe
