// Package gatewayapi runs the conformance suites of the Gateway API and of its Inference Extension
// against meshpilot.
//
// Inputs: this checkout, the suite at the version of go.mod in programs/suite (of the Inference
// Extension, programs/inference), and a channel of the API. Outputs: a report in the format of the
// Gateway API project, and the outcome and duration of each test. The cluster is real, with one
// node; meshpilot is installed by its charts; gateways and sidecars run the upstream Envoy.
//
//	make conformance                                         # everything, standard channel
//	make conformance CHANNEL=experimental REPORT=report.yaml
//	make conformance RUN=HTTPRouteSimpleSameNamespace        # one test, or a regular expression
//	make conformance-inference                               # the suite of the Inference Extension
//
// Invariants: nothing is skipped and no feature is exempt unless a flag requests it, and then the
// summary says so.
//
// Start with [Start] in environment.go and [Environment.Run] in run.go; summary.go reads the outcome.
package gatewayapi
