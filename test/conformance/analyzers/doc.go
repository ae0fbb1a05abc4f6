// Package analyzers compares pilotctl analyze with Istio's own analyzers, on the inputs of Istio's
// tests.
//
// The inputs are the files and the table of expected messages in the Go module istio.io/istio, at the
// version that test/conformance/compat pins. They are read from the module cache, which make compat
// fills; nothing of them is in this repository. The output is testdata/cases.md: for each case of the
// table, whether the same codes are found for the same objects, or the reason for a difference, from
// testdata/differences.txt. docs/ANALYSIS.md includes it.
package analyzers
