// Package wire reads and writes just as much of the xDS protocol as a simulated proxy needs, at
// little cost.
//
// In: gRPC messages as bytes. Out: the names, versions and bodies in them, pointing into those
// bytes; from a body only the names of further resources (a cluster's endpoints, a listener's
// routes). Law: nothing here depends on a control plane, and a body is never decoded twice.
//
// Start with [Response] in response.go.
package wire
