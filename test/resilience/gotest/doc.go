// Package gotest runs `go test` over the whole module in its two searching modes, for the
// scorecard: with the race detector (race_test.go) and with generated input for every fuzz target
// (fuzz_test.go). Only `make scorecard` runs these tests; `make test-race` and `make fuzz` are the
// same runs without a record.
package gotest
