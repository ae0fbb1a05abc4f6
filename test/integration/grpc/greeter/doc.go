// Command greeter is a gRPC application of a mesh: a server that reports its name and the caller's,
// and a client that calls a given target. With --xds both are configured by xDS; without, it is as
// if there were no mesh.
//
// In: flags, and requests to its control port, which begin calls (control.go). Out: the results of
// the calls, a [Tally].
package main
