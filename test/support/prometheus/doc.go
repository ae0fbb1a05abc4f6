// Package prometheus runs a real Prometheus and its promtool for tests.
//
// The input is the configuration file of a server. The output is a [Server], a process of the program
// that programs/prometheus pins and that is built into the user's cache once, in some ten minutes.
// It stores its data in a directory of the test and ends with the test. [Promtool] runs the checks and
// unit tests of rule files. [OperatorKinds] has the definitions of the Prometheus operator's kinds.
//
// `make observability` runs the tests that need one of them ([Require]). Start with [Start].
package prometheus
