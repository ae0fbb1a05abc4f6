// Package process runs a server's program in a test: it starts, kills, pauses and resumes it, and logs
// its output if the test fails.
//
// Start with [New].
package process
