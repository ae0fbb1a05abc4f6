// Package e2e contains end-to-end tests: the real programs, real Envoys, captured traffic, in
// network namespaces.
//
// All of them share one Bookinfo mesh (main_test.go), so each leaves it as it found it. The demo
// covers most features of a mesh, and is one of the tests here; the others cover the remaining
// features.
package e2e
