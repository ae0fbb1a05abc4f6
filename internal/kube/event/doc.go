// Package event writes Kubernetes Events on objects that have errors, so that kubectl describe
// shows them.
//
// Input: the current Problems. Output: an Event of type Warning on the object of each Problem that
// is an error, of each object that proxies reject, and of each object of which proxies are not
// served a part because it conflicts with another one.
//
// Invariants: the name of an Event is a hash of its object, reason and text. So an Event that
// another replica, or an earlier leader, has written is found and renewed, and not written twice. A
// Problem is reported when it has lasted for two looks, and again before its Event expires. An
// object has at most maxPerObject Events at a time, and writes are limited by the rate limit of the
// client.
//
// Start with [Replica.RunElected] in elected.go, which decides which replica writes which Events,
// and [Writer.Run] in writer.go.
package event
