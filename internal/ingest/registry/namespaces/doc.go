// Package namespaces keeps the objects of namespaces that the mesh does not look at from everything behind it
// (MeshConfig.discoverySelectors).
//
// In: all events of a cluster: objects, Namespaces and Settings. Out: the same, but for the objects of namespaces that no selector
// chooses. Which those are may change at any time: a namespace that comes to be chosen brings all its objects, one that ceases
// to be takes them away.
// Law: pure. What has come out is, whatever the order in which objects, Namespaces and Settings came, the objects that there are in
// the namespaces that are chosen.
//
// Start with [Filter.Convert].
package namespaces
