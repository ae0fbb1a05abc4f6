// Package external manages remote clusters that have no control plane of their own and name this
// one in an annotation (EXTERNAL_ISTIOD).
//
// Inputs: remote clusters, and the annotation topology.istio.io/controlPlaneClusters of the control
// plane's namespace in each. Output: tasks that run for a cluster while its annotation names this
// control plane, such as publishing the mesh's roots there.
//
// Invariant: an API server that does not answer changes nothing; the last known annotation remains
// in effect.
//
// Start with [Clusters.Manage] in clusters.go.
package external
