// Package skew tests proxies whose Envoy is older than the newest supported one (ADR 34).
//
// For each version a mesh of a client and two servers, each behind a real sidecar with its traffic captured, does what a mesh does
// all day: connect, call with mutual TLS, follow an AuthorizationPolicy and a pushed route, drain. Then a mesh is rolled from one
// version to another while requests run, and loses none.
//
// `make test` runs the oldest and the newest version, `make skew` all.
//
// Start with skew_test.go; mesh_test.go is where it runs.
package skew
