// Package backend is a server that answers with the request that it received, and records it.
//
// In: how to listen, on which ports. Out: a [Server] that speaks HTTP/1, HTTP/2, TLS and lines of
// text on every port, told apart by the first bytes, and a [Memory] of every request by its id. One
// server represents any number of instances: it distinguishes them by the local address of a
// connection.
//
// The header x-answer of a request selects how each attempt is answered: "503 200", "200+300ms"
// after a while, "reset". On GreetingPort the server speaks first.
//
// Start with [New] in server.go.
package backend
