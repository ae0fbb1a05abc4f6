// Package readapi serves the read API of a control plane below /api/v1: JSON documents and
// server-sent events for pilotctl, a web console and pipelines (ADR 41).
//
// The inputs are the newest snapshot and the state of the proxies' streams ([Options]). The outputs
// are the operations of openapi.yaml in docs, which a test generates from the types of this
// package. The rules of access are the same as for the debug pages ([debug.Access]): callers over
// the loopback interface and identities of system namespaces read everything, others what belongs
// to their namespace.
//
// Nothing here changes state, and fields are only added within a version of the API.
//
// Start with [New] in api.go; rollout.go follows one object to all proxies.
package readapi
