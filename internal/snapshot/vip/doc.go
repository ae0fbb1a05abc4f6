// Package vip allocates virtual addresses to services that have none.
//
// The inputs are requests, each with an age that decides conflicts, and the addresses that are
// reserved. The output is an address per request. The allocation is a function of the current set
// of requests and reservations, independent of the order in which they were made. All replicas
// therefore agree, before and after a restart, without communication. A newer request never changes
// the address of an older one.
//
// Each service has a pseudorandom sequence of candidate addresses, the hashes of its name, and gets
// the first address that is not reserved or assigned to a request with precedence. This is the
// stable matching in which all requests prefer earlier candidates, and it is maintained
// incrementally. A service that loses its address continues along its sequence. An address that
// becomes free goes to the request with the highest precedence that was refused it.
//
// Start reading with [Pool.Set] in pool.go.
package vip
