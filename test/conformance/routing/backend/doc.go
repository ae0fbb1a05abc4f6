// Package backend is a server that answers with what it saw, and remembers it.
//
// In: how to listen, on which ports. Out: a [Server] that speaks HTTP/1, HTTP/2, TLS and lines of text on every port, told apart by
// the first bytes, and a [Memory] of every request by its id. One server stands for any number of instances: it tells them
// apart by the address that a connection came to.
//
// A request says by its header x-answer what is to become of each attempt: "503 200", "200+300ms" after a while, "reset".
// On GreetingPort the server speaks first.
//
// Start with [New] in server.go.
package backend
