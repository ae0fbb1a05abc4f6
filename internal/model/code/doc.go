// Package code has the stable codes of the messages about users' objects.
//
// A code with the prefix IST has the meaning that it has in istioctl analyze, so that suppressions,
// documentation and search results of Istio apply. A code with the prefix MP is meshpilot's own.
// Codes are never reused for another meaning.
//
// Start reading with [All], the table from which pilotctl analyze --explain, docs/ANALYSIS.md and
// the rules in SARIF output are derived.
package code
