// Package e2e holds the tests of the whole: the real programs, real Envoys, captured traffic, in network namespaces.
//
// All of them share one Bookinfo mesh (main_test.go), so each leaves it as it found it. The demo tells most of what a mesh
// does, and is one of the tests here; the others are for what a story does not show.
package e2e
