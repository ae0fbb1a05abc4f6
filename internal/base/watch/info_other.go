//go:build !linux

package watch

import (
	"os"
	"time"
)

func bornAt(string) time.Time { return time.Time{} }

func bornOf(*os.File) time.Time { return time.Time{} }
