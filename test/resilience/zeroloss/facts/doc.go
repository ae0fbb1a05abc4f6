// Package facts keeps what was found out about Envoy alone, as tests: which changes of its configuration lose requests.
//
// A control plane leans on these facts in the order in which it pushes, and in what it puts where. Each test runs an Envoy
// that reads its configuration from files, servers behind it, and requests of every kind (package echo) that are always
// under way; then it makes one change again and again, and counts for each kind what was lost. A fact that a newer Envoy
// makes untrue, for better or worse, fails its test.
//
// Start with the table in facts_test.go.
package facts
