//go:build !unix

package server

import "errors"

// readDescriptor returns an error: the control plane serves on Unix only. pilotctl contains this
// package on all platforms, but serves no xDS.
func readDescriptor(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
