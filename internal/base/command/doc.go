// Package command is what the command lines of all binaries share: log flags, the version command,
// unknown and retired flags that are accepted with a warning, and requests to a local port.
//
// In: a cobra command tree. Out: the same with those parts. Law: imports nothing of ours but obs
// and retired; reads no environment.
package command
