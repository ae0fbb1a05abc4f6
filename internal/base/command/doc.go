// Package command holds the shared parts of all programs' command lines: log flags, the version
// command, tolerance of unknown and retired flags with a warning, and requests to a local port.
//
// Its functions add these parts to a cobra command tree. Invariants: it imports only obs and
// retired of this repository, and reads no environment variables.
package command
