// Package feed serves the control plane's own configuration objects over xDS to other control
// planes. It is the counterpart of source/xds. Istio calls this function the api generator.
//
// The inputs are snapshots and the ADS streams of clients whose node metadata has GENERATOR=api.
// The outputs are one resource type per Istio kind and API version, and the mesh config as
// "core/v1alpha1/MeshConfig". Each object is an istio.mcp.v1alpha1.Resource. All versions of a kind
// have the same content: "networking.istio.io/v1/ServiceEntry" has the content of v1beta1 and
// v1alpha3.
//
// Two invariants hold. The package serves the configuration of the whole mesh, so it refuses every
// client that [Access] does not allow. The output is canonical: equal objects have equal bytes and
// versions on every replica and after every restart.
//
// An object is encoded once for as long as the snapshot has the same row for it. Objects are
// encoded only while clients are connected. The protocol is implemented by stream.Machine, with a
// table of types of this package.
//
// Start reading with [Feed] in feed.go. types.go has the table of types, library.go converts
// objects to resources, session.go serves one stream, and message.go encodes its messages.
package feed
