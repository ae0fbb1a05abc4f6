// Package apiserver fills a real API server with the objects of a mesh without running any of them:
// Services, pods as the injector leaves them, with the status that a kubelet would write, and
// EndpointSlices.
//
// In: numbers. Out: objects in the API server. Law: the same numbers yield the same objects.
//
// Start with [Fill].
package apiserver
