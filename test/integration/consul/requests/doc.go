// Package requests sends requests through real Envoys whose services are in a real Consul cluster. It
// counts lost requests while Consul servers fail, and checks which instances answer at each kind of
// host and address that a service in Consul has. A mixed mesh has an API server and a folder beside Consul.
// Start with [TestNoRequestIsLost] and [TestMixedMesh].
package requests
