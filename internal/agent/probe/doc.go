// Package probe checks the application's health for the kubelet, whose own probes would be captured
// and fail at mutual TLS, or for the control plane, for workloads without a kubelet.
//
// The inputs are the kubelet's probes as the injector recorded them, or a WorkloadGroup's readiness
// probe. The outputs are HTTP responses at the status port, or a callback on each change of the
// workload's health.
//
// Invariants: a probe of the workload's own address has a source address that traffic capture lets
// pass. A probe ends within its timeout, and reads no more of a response than it forwards.
//
// Start with [Probe] in probe.go. handler.go serves the kubelet, monitor.go polls for the control
// plane.
package probe
