// Package model groups the vocabulary of the mesh. All other folders speak it:
//
//	api       type URLs and the table of kinds
//	config    users' objects: decoding, validation, defaults
//	mesh      Service, Endpoint, Workload, Proxy, Event
//	resource  encoded Envoy resources, sets of them, differences
//	spiffe    identities
//	retired   what Istio has removed, and its successors
//
// It has no code of its own. Its packages do no I/O and start no goroutine. Start with mesh.
package model
