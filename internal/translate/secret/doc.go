// Package secret makes the Secrets of SDS: certificates with their keys, and certificates to trust, that Gateways and
// DestinationRules name as credentials (credentialName).
//
// In: the Secrets and ConfigMaps of a snapshot, and the name that a proxy asks for. Out: an encoded Secret, or nothing
// where the object is not there, is not for that proxy, or holds what no Envoy would take.
// Law: pure. Whether a proxy may have a secret is asked each time, before anything that is remembered is looked at. No
// key, and no part of one, is in any message.
//
// Start with [Generator.Named] in generator.go; access.go says who may have what, pair.go and trust.go read objects, and
// inspector.go tells people what is wrong with them.
package secret
