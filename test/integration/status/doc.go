// Package status tests the output of kubectl and pilotctl with a real API server and whole control
// planes: the condition of an object, the proxies that have it, addresses of ServiceEntries, and
// WorkloadEntries of workloads that register themselves.
//
// In: objects as users apply them, proxies that connect. Out: the resulting objects. Law: nothing
// of the control plane is called, but what its options start.
//
// Start with lab_test.go, then status_test.go and workload_test.go.
package status
