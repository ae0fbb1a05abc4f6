package watch

import (
	"os"
	"time"
)

// Info describes a file at one point in time.
type Info struct {
	os.FileInfo
	// born is the birth time of the file, zero if the file system does not record it. It
	// distinguishes files that had the same inode number, because a file system may reuse the
	// number of a removed file.
	born time.Time
}

// Known reports whether i describes a file. It is false for the zero Info.
func (i Info) Known() bool { return i.FileInfo != nil }

// SameFile reports whether i and other describe the same file. It returns false if either is not
// known, or the file was replaced, even by one with the same inode number.
func (i Info) SameFile(other Info) bool {
	return i.Known() && other.Known() && os.SameFile(i.FileInfo, other.FileInfo) && i.born.Equal(other.born)
}

// Stat returns the Info of the file to which a path resolves, through symbolic links.
func Stat(path string) (Info, error) {
	f, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{FileInfo: f, born: birthTimeOfPath(path)}, nil
}

// statOpenFile returns the Info of an open file.
func statOpenFile(f *os.File) (Info, error) {
	info, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return Info{FileInfo: info, born: birthTimeOfFile(f)}, nil
}
