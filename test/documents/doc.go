// Package documents holds what README and docs say about the programs to the sources.
//
// Inputs: README.md and the Markdown files below docs and samples, the Go sources of the repository, and go:internal/retired.
// Output: a test failure for each flag that no command has, each environment variable that no program reads, and each metric
// that no program registers.
//
// A name is known to the sources if it stands there where such a name is declared: as the name of a flag, or as a whole string.
// The documents that are about one kind of name in full have tests of their own: ENVIRONMENT.md (cmd/pilot-discovery),
// ENVIRONMENT-AGENT.md (internal/agent/environment), METRICS.md (internal/obs), METRICS-AGENT.md (internal/agent), RETIRED.md
// (internal/retired) and api-coverage.md (test/ledger).
package documents
