// Package control lets other processes of a user act on a mesh of this machine through a Unix
// socket: end it, run commands in its nodes, forward ports. A path works across PID, network and
// user namespaces, and needs no root.
//
// A client sends one [Request] as JSON, with open files as descriptors, and then signals for the
// command that it started. The server answers with lines of progress and one final result, and
// cancels the request if the client disconnects.
//
// Invariants: only the owner of the socket can connect. A command does not outlive its client.
//
// Start reading at server.go; client.go is the other side, and node.go has the actions in a node
// that all meshes share.
package control
