// Package scorecard connects tests to the numbered checks of docs/SCORECARD.md.
//
// A test that is part of a check declares the check and the size at which it runs, and records its
// measurements:
//
//	func TestNoRequestIsLost(t *testing.T) {
//		rounds := scorecard.BySize(5, 200, 1000)
//		check := scorecard.Check(t, 8, scorecard.Size("rounds", rounds))
//		...
//		check.Measured("requests", sent)
//		check.Measured("requests lost", lost)
//	}
//
// Declarations are test attributes (testing.T.Attr): `go test -json` reports them as events with
// the action "attr". `make scorecard` (package test/resilience/scorecard) runs the tests of each
// check, reads these events and writes the document. Its table lists the tests of every check; a
// listed test that passes without a declaration counts as failed.
//
// Everyday runs and `make test` use the short size. `make scorecard SIZE=hour` and SIZE=soak set
// the environment variable SizeVariable, which only BySize and Heavy read.
package scorecard
