// Package proxyconfig computes the effective ProxyConfig of one proxy.
//
// The inputs are YAML layers: the mesh configuration file, the variable PROXY_CONFIG and the
// annotation proxy.istio.io/config. The output is a ProxyConfig of istio.io/api.
//
// Invariants: the package is pure. A field of a later layer replaces the whole field of an earlier
// one, except that proxyMetadata and proxyHeaders are merged. Every error names the layer and the
// field. Unknown fields are reported and skipped.
//
// Start with [MergeLayers] in effective.go, then defaults.go and validate.go.
package proxyconfig
