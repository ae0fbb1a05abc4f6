// Package trustbundle fetches the SPIFFE trust bundles that the mesh settings name
// (MeshConfig.caCertificates.spiffeBundleUrl).
//
// Input: addresses ([Feed.SetAddresses]). Outputs: batches of events with the certificate
// authorities of each trust domain, as settings, and Problems of addresses that cannot be fetched.
//
// Invariant: a bundle stays in use while its address is named, even if later fetches fail.
//
// Start with [Feed] in feed.go. Package jwks does the fetching.
package trustbundle
