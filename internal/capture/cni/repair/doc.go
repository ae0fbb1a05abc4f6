// Package repair handles pods that started on a node before the CNI plugin was installed. Their
// traffic is not captured, so their init container istio-validation fails and they never become
// ready.
//
// The inputs are the Pods of a node and since when the plugin is installed. Broken pods are
// deleted, so that their controllers replace them, or labeled. The other outputs are an Event on
// each of them and a metric.
//
// Invariants: only pods older than the plugin's installation are touched, so that a pod that is
// broken for another reason is not deleted repeatedly. A pod without a controller is not deleted.
//
// Start with repair.go. report.go has the Events and the metric.
package repair
