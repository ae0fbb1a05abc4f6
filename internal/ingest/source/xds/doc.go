// Package xds is the config source that reads objects from an xDS server: meshConfig.configSources
// with an address xds://host:port, which Istio calls MCP over xDS.
//
// The input is one ADS stream, on which every kind of config object is a resource type
// ("networking.istio.io/v1/ServiceEntry") and each object is an istio.mcp.v1alpha1.Resource. The
// outputs are batches of events about objects, and the Problems of each object. The last good
// version of an object stays in use until a good version replaces it or the server deletes it. An
// unreachable server and an invalid object remove nothing.
//
// # Requests
//
// The source requests the same types as Istio: all objects of each kind, in version v1 or in the
// only version that the kind has. By default it uses the state-of-the-world variant, as Istio does,
// which every such server supports. xds://host:port?mode=delta selects the incremental variant. It
// saves the server from sending a whole type for each change, and after a reconnect from sending
// unchanged objects. If the server does not implement it (codes.Unimplemented), the source falls
// back to the other variant at once. It is not the default because many servers accept a delta
// stream but never answer these types on it.
//
// Every response is acknowledged, even if it contains an invalid object: valid objects are used,
// and the invalid one keeps its last good version and gets a Problem. A NACK would reject the valid
// objects too, and makes widely used servers send the same response again immediately and
// endlessly. Only a response that cannot be parsed at all ends the stream.
//
// # Cost of a change
//
// A state-of-the-world server sends all objects of a type for every change of one. A response is
// therefore not unmarshaled as a whole. Its bytes are scanned, an object is recognized by its name
// and the hash of its bytes, and only changed objects are decoded.
//
// Start reading with [Source] in source.go. link.go is one connection, sotw.go and delta.go are the
// two variants of the protocol, collection.go holds the objects of one type, object.go decodes one
// object, and wire.go scans messages.
package xds
