// Package ondemand tests what Envoy does with clusters that it fetches when it first uses them (ADR
// 52): an Envoy, servers behind it, and an ADS server that sends resources that the test selects
// and records all requests. A fact that a newer Envoy makes untrue, for better or worse, fails its
// test.
//
// Start with the tests in facts_test.go; lab_test.go is the Envoy, server_test.go the ADS server.
package ondemand
