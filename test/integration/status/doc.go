// Package status holds what users see with kubectl alone to a real API server and whole control planes: the condition of an object,
// who has it, addresses of ServiceEntries, and WorkloadEntries of workloads that register themselves.
//
// In: objects as users apply them, proxies that connect. Out: what is in the objects then. Law: nothing of the control plane is
// called, but what its options start.
//
// Start with lab_test.go, then status_test.go and workload_test.go.
package status
