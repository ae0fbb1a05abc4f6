//go:build unix

package server

import "syscall"

// readDescriptor reads once from a file descriptor, which does not block.
func readDescriptor(fd uintptr, buffer []byte) (int, error) { return syscall.Read(int(fd), buffer) }
