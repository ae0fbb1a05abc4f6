// Package diff computes the effect of a change of the mesh on its proxies, without sending
// anything.
//
// The inputs are two snapshots, before and after the change, the proxies, and the generators of the
// translation. The output is a [Report]: which proxies change, which resources are added, removed
// and changed with the fields that differ, which connections Envoy drains, which calls go
// elsewhere, and which Problems appear and disappear.
//
// A proxy is compared by all resources that Envoy requests: clusters and listeners, and the
// resources to which they refer by name. Each output of a generator is computed once for all
// proxies that share it, and each pair of outputs is compared once, so the cost follows the number
// of distinct outputs. Nothing here depends on time or changes the snapshots.
//
// Start reading with [Compare] in compare.go. translation.go generates the resources of a proxy,
// closure.go collects and compares the resources that many proxies share, references.go finds the
// names that a resource refers to, fields.go compares two messages, and drains.go and calls.go
// derive the effects on traffic.
package diff
