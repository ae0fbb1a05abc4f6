package watch

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// birthTimeOfPath returns the birth time of the file to which a path resolves, or zero if it is not
// known.
func birthTimeOfPath(path string) time.Time { return birthTime(unix.AT_FDCWD, path, 0) }

// birthTimeOfFile returns the birth time of an open file, or zero if it is not known.
func birthTimeOfFile(f *os.File) (at time.Time) {
	conn, err := f.SyscallConn()
	if err != nil {
		return at
	}
	if err := conn.Control(func(fd uintptr) { at = birthTime(int(fd), "", unix.AT_EMPTY_PATH) }); err != nil {
		return time.Time{}
	}
	return at
}

// birthTime returns the birth time of a file, or zero if it cannot be read or the file system does
// not record it. The parameters are passed to statx.
func birthTime(dir int, path string, flags int) time.Time {
	var s unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_BTIME, &s); err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(s.Btime.Sec, int64(s.Btime.Nsec))
}
