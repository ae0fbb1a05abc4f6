// Package scorecard runs the reliability checks of this project and writes docs/SCORECARD.md.
//
// Checks returns the table: 43 numbered checks, what each requires, the tests that prove it and
// what these tests leave out. Run executes the tests with `go test -json`; the tests report their
// size and their figures as attributes (package test/support/scorecard). Judge turns their
// events into a Row. Document holds the rows, parses the file of the last run and renders the new
// one. A run of some checks replaces only their rows; the other rows keep their dates.
//
// Invariants, held by tests: the document has one row for each check, every test of the table
// exists and declares its check, and the document is what Render makes of it.
//
// Start with table.go and run.go; `make scorecard` is the command.
package scorecard
