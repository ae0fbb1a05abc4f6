// Package service is Bookinfo's four services: productpage, details, reviews and ratings.
//
// In: HTTP requests with the paths of the well-known sample. Out: its JSON shapes, so that clients, rules and
// dashboards made for it work unchanged.
//
//	productpage --> details
//	            --> reviews v1 (no stars), v2 (black stars), v3 (red stars)
//	                            v2, v3 --> ratings
//
// Law: a service knows the others by host name only, and passes on the headers that tie the requests of one page
// together (headers.go); everything else about traffic is the mesh's business. The one addition to the sample is a
// ratings service that can be asked to fail a bounded number of times (failure.go), to show retries.
//
// Start reading at service.go.
package service
