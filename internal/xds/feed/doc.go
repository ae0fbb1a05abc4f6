// Package feed serves the control plane's own config objects over xDS, so that one control plane can feed others: the other end
// of source/xds, and what Istio calls its api generator.
//
// In: snapshots, and the ADS streams of clients whose node metadata says GENERATOR=api. Out: every Istio kind as a resource type
// of its own, in each version that its API has ("networking.istio.io/v1/ServiceEntry" and v1beta1 and v1alpha3 hold the
// same), each object as an istio.mcp.v1alpha1.Resource; and the mesh config as "core/v1alpha1/MeshConfig".
// Law: all config of the whole mesh goes out here, so nobody is served but whom [Access] allows. What is sent is canonical: the
// same objects have the same bytes and versions from every replica and after every restart.
//
// An object is encoded once for as long as it is the same row of the snapshot, and only while somebody is connected. The rules
// of the protocol are those of stream.Machine, with a table of types of its own.
//
// Start with [Feed] in feed.go. types.go is the table of types, library.go makes resources of objects, session.go serves one
// stream, message.go is the form of its messages.
package feed
