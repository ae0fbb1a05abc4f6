// Package secret generates the Secrets of SDS: certificates with private keys, and trusted
// certificates, that Gateways and DestinationRules reference as credentials (credentialName).
//
// The inputs are the Secrets and ConfigMaps of a snapshot, and the name that a proxy requests. The
// output is an encoded Secret. There is none if the object does not exist, the Policy denies it to
// the proxy, or Envoy would refuse its content. The access check precedes every cache lookup. No
// message contains a key or a part of one.
//
// Start with [Generator.Named] in generator.go. File access.go decides who may receive what,
// pair.go and trust.go parse objects, and inspector.go reports their faults.
package secret
