// Package wasm fetches the Wasm modules of extensions, so that Envoy loads them from local files.
//
// The inputs are extensions from the control plane with URLs (http, https, oci), checksums and pull
// secrets. The outputs are the same extensions with files of a cache on disk. If a module is
// unavailable, its filter is replaced by an RBAC filter that allows or denies all traffic, by the
// plugin's failure policy.
//
// Invariants: nothing is fetched from link-local addresses, where clouds serve credentials. Fetches
// are bounded in size and time, also after decompression. Of an archive a single file is read, and
// no file is written under a name from it. A pull secret is sent to its registry and never to
// Envoy.
//
// Start with [Cache.Convert] in convert.go, then cache.go, http.go, image.go and unpack.go.
package wasm
