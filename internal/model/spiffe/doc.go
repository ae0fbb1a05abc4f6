// Package spiffe parses and validates SPIFFE IDs and the certificates that carry them
// (X.509-SVIDs).
//
// Inputs: text, a certificate or a trust bundle. Output: an [ID] or an error, exactly by the
// standards SPIFFE-ID and X509-SVID (https://github.com/spiffe/spiffe/tree/main/standards). IDs are
// parsed by spiffe/go-spiffe. What it does not check, or accepts beyond the standards, is checked here.
//
// Invariants: all functions are pure. Every non-zero ID is valid and is formatted exactly as it was
// parsed.
//
// Start with [Parse] in id.go. account.go converts IDs of service accounts, svid.go validates
// certificates, and bundle.go parses trust bundles.
package spiffe
