// Package grpc has gRPC applications that have no proxy in a mesh: grpc-go's own xDS client and
// server, each with a pilot-agent that supplies its bootstrap, configuration and certificate, and a
// control plane. All of it is real.
package grpc
