// Package discovery composes the control plane, pilot-discovery, from the packages that implement
// it.
//
// The input is [Options], which cmd/pilot-discovery fills from flags and environment variables. The
// output is a running control plane: [Run] opens the ports and blocks until its context ends.
//
// newServer creates all parts without opening a port, and run starts them. A batch from a source
// passes the filters and converters of registries.go and then the snapshot builder. publish hands
// each new snapshot to all parts that need it. A constructor may use only the parts that were
// created before. No other package of internal imports this one.
//
// It decides nothing itself: what depends on more than which settings are set belongs to the package
// of its subject. A test limits its lines.
//
// Start reading with [Run] in run.go. The settings are in package options, the certificate authority
// is in authority.go, and the ports for HTTP and xDS are in http.go and xds.go.
package discovery
