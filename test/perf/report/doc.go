// Package report is the results of a benchmark: as JSON, as a table, and two of them compared.
//
// In: measurements of scenarios. Out: text. Law: nothing is measured here, and JSON contains
// everything that the table leaves out.
//
// Start with [Run] in result.go.
package report
