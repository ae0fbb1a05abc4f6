// Package wasm fetches the Wasm modules that extensions name, so that Envoy is given local files.
//
// In: extensions as the control plane sends them, with addresses (http, https, oci), checksums and pull secrets. Out: the same
// extensions with the files of a cache on disk or, where a module cannot be had, a filter that does what the plugin's failure
// strategy says: lets everything pass, or nothing.
// Law: nothing is fetched from link-local addresses, where clouds keep credentials. What is fetched has a bound in size and
// time, also after it is unpacked; of archives only the one file is read, and none is ever written under a name of theirs. A
// pull secret goes to its registry and not to Envoy.
//
// Start with [Cache.Convert] in convert.go, then cache.go, http.go, image.go and unpack.go.
package wasm
