// Package report is the results of a benchmark: as JSON, as a table, and two of them compared.
//
// In: what scenarios measured. Out: text. Law: nothing is measured here, and JSON keeps everything
// that the table leaves out.
//
// Start with [Run] in result.go.
package report
