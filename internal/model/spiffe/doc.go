// Package spiffe is the one home of SPIFFE IDs: what the mesh's workloads are called, and what certificates may say so.
//
// In: text, or a certificate. Out: an [ID], or what is wrong, to the letter of the standards SPIFFE-ID and X509-SVID
// (https://github.com/spiffe/spiffe/tree/main/standards). Law: pure; an ID that exists is valid, and prints as it was read.
//
// Start with [Parse] in id.go; svid.go is what a certificate must be to identify somebody, bundle.go how trust domains publish who
// vouches for theirs.
package spiffe
