// Package wire reads and writes just as much of the xDS protocol as a simulated proxy needs, at little cost.
//
// In: gRPC messages as bytes. Out: the names, versions and bodies in them, pointing into those bytes; of a body what a
// proxy must know to ask on (a cluster's endpoints, a listener's routes). Law: nothing here knows a control plane, and
// what is read once is never decoded again.
//
// Start with [Response] in response.go.
package wire
