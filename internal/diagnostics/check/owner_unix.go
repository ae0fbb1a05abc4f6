//go:build unix

package check

import (
	"os"
	"syscall"
)

// ownerOf returns the ID of the user that owns a file. known is false if it cannot be determined.
func ownerOf(info os.FileInfo) (id uint32, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}
