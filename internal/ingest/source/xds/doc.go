// Package xds is the config source that reads objects from an xDS server: meshConfig.configSources with an address
// xds://host:port, what Istio calls MCP over xDS.
//
// In: one ADS stream of the server, on which every kind of config object is a resource type of its own
// ("networking.istio.io/v1/ServiceEntry") and each object comes as an istio.mcp.v1alpha1.Resource. Out: batches of events
// about objects, with the Problems of each object beside them.
// Law: what was once good stays until something as good takes its place, or the server says that it is gone. A server that
// is away takes nothing away, and neither does an object that is broken.
//
// # What it says to the server
//
// It asks for what Istio asks for: each kind in the version that the API calls v1, or in the only version it has, and all
// objects of it. Without anything else in the address it speaks the state-of-the-world variant, as Istio does, and as
// every such server understands. xds://host:port?mode=delta asks for the incremental variant, which spares the server from
// sending a whole type for each change, and after a reconnect from sending anything that did not change; a server that
// does not implement it (codes.Unimplemented) is asked the other way at once. It is no default because many servers take
// a delta stream and never answer these types on it.
//
// Every response is acknowledged, also one with a bad object in it: the good ones are in use, the bad one is a Problem that
// names it and stays as it was before. A NACK would refuse the good ones with it, and has widely used servers send the same
// response again at once, for ever. Only what cannot be read as a response at all ends the stream.
//
// # What a change costs
//
// A state-of-the-world server sends all objects of a type for every change of one. A response is therefore never unmarshalled
// as a whole: it is walked as bytes, an object is known by its name and a hash of its bytes, and only one whose bytes
// differ is decoded.
//
// Start with [Source] in source.go. link.go is one connection, sotw.go and delta.go are the two variants on it,
// collection.go is what is held of one type, object.go reads one object, wire.go is the form of messages.
package xds
