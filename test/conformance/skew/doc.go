// Package skew tests proxies whose Envoy is older than the newest supported one (ADR 34).
//
// For each version a mesh of a client and two servers, each behind a real sidecar with its traffic
// captured, is tested: connect, call with mutual TLS, follow an AuthorizationPolicy and a pushed
// route, leave a service, drain. In `make skew` all sidecars are also upgraded from one version to
// another under load, and no request may be lost.
//
// `make test` runs the oldest and the newest version, `make skew` all.
//
// Start with skew_test.go; leave_test.go is about connections of a removed service, mesh_test.go is
// where it runs.
package skew
