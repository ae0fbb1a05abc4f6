// Package architecture tests the sources themselves: which package may import which
// (testdata/imports.txt), that the folders of internal/ import one way and are those of
// docs/ARCHITECTURE.md, and rules that neither the compiler nor the linter checks: no unbounded
// reads, no goroutine without recovery that is not listed, no t.Fatal outside the test's goroutine,
// pinned downloads, and tests for every row of docs/SECURITY.md.
//
// It has no code, only tests.
package architecture
