// Package cloudfoundry tests the registry of Cloud Foundry's routes with a real NATS server, on
// which a test emitter publishes routes as Cloud Foundry's does: the services while routes change
// and expire, and the ones that are retained while servers or emitters fail. Start with
// [TestRoutes] in routes_test.go.
package cloudfoundry
