// Package requests sends requests through real Envoys whose services are in a real Consul cluster. It
// counts lost requests while Consul servers fail, and checks which instances answer at each kind of
// host and address that a service in Consul has. Start with [TestNoRequestIsLost].
package requests
