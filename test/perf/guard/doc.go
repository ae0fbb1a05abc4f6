// Package guard keeps the cost of changes from growing unnoticed: the allocations of Go benchmarks,
// and the allocations and sent bytes of the group small/main of meshbench, are compared with the
// table in docs/BENCHMARKS.md. Unlike times, they hardly depend on the machine and its load.
//
// A figure that exceeds its recorded value by more than a tenth fails the test. To accept it, write the table
// again, which is then part of the change and of its review:
//
//	MESHPILOT_LONG=true go test ./test/perf/guard -update
//
// Start with guard_test.go. table_test.go reads and writes the document.
package guard
