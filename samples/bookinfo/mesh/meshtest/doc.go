// Package meshtest brings a mesh up for a test that is about what happens in it.
//
// In: a test and mesh.Options. Out: a mesh that ends with the test. Start with [Start].
package meshtest
