//go:build !linux

package watch

import (
	"os"
	"time"
)

// birthTimeOfPath returns zero: birth times are read on Linux only.
func birthTimeOfPath(string) time.Time { return time.Time{} }

// birthTimeOfFile returns zero: birth times are read on Linux only.
func birthTimeOfFile(*os.File) time.Time { return time.Time{} }
