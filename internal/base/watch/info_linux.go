package watch

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func bornAt(path string) time.Time { return born(unix.AT_FDCWD, path, 0) }

func bornOf(f *os.File) (at time.Time) {
	conn, err := f.SyscallConn()
	if err != nil {
		return at
	}
	if err := conn.Control(func(fd uintptr) { at = born(int(fd), "", unix.AT_EMPTY_PATH) }); err != nil {
		return time.Time{}
	}
	return at
}

// born returns zero for a file system that keeps no birth times.
func born(dir int, path string, flags int) time.Time {
	var s unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_BTIME, &s); err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(s.Btime.Sec, int64(s.Btime.Nsec))
}
