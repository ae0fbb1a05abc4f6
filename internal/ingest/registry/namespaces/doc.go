// Package namespaces removes the objects of namespaces that MeshConfig.discoverySelectors does not
// select from the events of a cluster.
//
// The inputs are all events of a cluster: objects, Namespaces and Settings. The outputs are the
// same events without the objects of unselected namespaces. The selection can change at any time.
// If a namespace becomes selected, all its objects are emitted; if it becomes unselected, they are
// deleted. The result depends only on the set of objects, Namespaces and Settings, not on their
// order.
//
// Start reading with [Filter.Convert].
package namespaces
