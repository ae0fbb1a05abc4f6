// Package prometheus has Prometheus and its promtool for tests.
//
// The input is the name of a program. The outputs are [Binary], its path in the user's cache, into which
// it is built once from the module that programs/prometheus pins, in some ten minutes; the output of
// [Promtool], which checks rule files and runs their unit tests; and [OperatorKinds], the definitions of
// the Prometheus operator's kinds. [Client] queries a server that a test runs.
//
// `make observability` runs the tests that need a program ([Require]).
package prometheus
