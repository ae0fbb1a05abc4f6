package watch

import (
	"os"
	"time"
)

// Info describes a file as it was at one moment.
type Info struct {
	os.FileInfo
	// born is the time when the file was made; zero where the file system does not say. It tells files apart that had one inode
	// number one after the other: a file system may give the number of a removed file to the next one.
	born time.Time
}

// Known reports whether i describes a file. The zero Info does not.
func (i Info) Known() bool { return i.FileInfo != nil }

// SameFile reports whether i and other describe the same file. It returns false if the file was replaced, even by one with the same
// inode number, and if either is not known.
func (i Info) SameFile(other Info) bool {
	return i.Known() && other.Known() && os.SameFile(i.FileInfo, other.FileInfo) && i.born.Equal(other.born)
}

// Stat describes the file that a path leads to.
func Stat(path string) (Info, error) {
	f, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{FileInfo: f, born: bornAt(path)}, nil
}

// statOpen describes an open file.
func statOpen(f *os.File) (Info, error) {
	info, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return Info{FileInfo: info, born: bornOf(f)}, nil
}
