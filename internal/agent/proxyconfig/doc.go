// Package proxyconfig finds the ProxyConfig that is in effect for one proxy.
//
// In: YAML from the mesh configuration file, the PROXY_CONFIG variable and the proxy.istio.io/config annotation. Out: one
// validated ProxyConfig of istio.io/api. Law: pure. A later layer's field replaces the whole field of an earlier one, except
// that proxyMetadata is joined key by key. Every error names the layer and the field.
//
// Start with [Effective] in effective.go, then defaults.go and validate.go.
package proxyconfig
