// Package documents checks README and docs against the sources.
//
// Inputs: README.md, CONTRIBUTING.md, the Markdown files below docs and samples, the Go sources of
// the repository, and the table of internal/model/retired. Output: a test failure for each flag
// that no command has, each environment variable that no program reads, and each metric that no
// program registers.
//
// It checks the relative links and anchors of all documents, and that every document below docs is
// in the navigation of the site (mkdocs.yml).
//
// Each design decision (docs/adr) has a number of its own, and links name the right number. It also
// compares docs/COMPATIBILITY.md with the versions in use, ADR 1 with go.mod, and checks the
// licenses of all modules in programs.
//
// A name is known if the sources declare it: a flag where it is defined, a variable as a whole
// string outside tests. The documents that list one kind of name completely have tests of their
// own: FLAGS.md and ENVIRONMENT.md (cmd/pilot-discovery), FLAGS-AGENT.md (cmd/pilot-agent),
// FLAGS-CNI.md and METRICS-CNI.md (cmd/istio-cni), ENVIRONMENT-AGENT.md
// (internal/agent/environment), METRICS.md (internal/base/obs), METRICS-AGENT.md (internal/agent),
// RETIRED.md (internal/model/retired), PILOTCTL.md (internal/diagnostics/cli) and api-coverage.md
// (test/conformance/apicoverage).
//
// Start with TestFlags.
package documents
