// Package facts tests properties of Envoy alone: which changes of its configuration lose requests.
//
// The control plane's order of pushes and its placement of settings rely on these facts. Each test
// runs an Envoy that reads its configuration from files, servers behind it, and requests of every
// kind (package echo) that are always under way; then it repeats one change, and counts the lost
// requests of each kind. A fact that a newer Envoy makes untrue, for better or worse, fails its
// test.
//
// Start with the table in facts_test.go.
package facts
