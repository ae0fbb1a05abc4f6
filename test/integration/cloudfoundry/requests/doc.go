// Package requests sends requests through a real Envoy whose control plane reads Cloud Foundry's routes
// from a real NATS server, which is killed meanwhile. Start with [TestRequests].
package requests
