package watch

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// MaxSize bounds the size of a file that is read, in bytes.
const MaxSize = 64 << 20

// Look describes a file at the time it was read.
type Look struct {
	// Info describes the open file, even if the path resolves to another file by now.
	Info Info
	// Stable is set if the file was not written to while it was read.
	Stable bool
}

// Read reads a regular file of at most MaxSize bytes. It returns an error and no content for other
// kinds of files and larger ones. Look has the state after the read, or before it if the file is
// refused or reading fails; it is zero if the file cannot be opened. Look.Stable is false then, or
// if the file changed while it was read.
func Read(path string) ([]byte, Look, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe must not block
	if err != nil {
		return nil, Look{}, err
	}
	defer f.Close()
	before, err := statOpenFile(f)
	if err != nil {
		return nil, Look{}, err
	}
	refuse := func(reason string) ([]byte, Look, error) {
		return nil, Look{Info: before}, &os.PathError{Op: "read", Path: path, Err: errors.New(reason)}
	}
	if !before.Mode().IsRegular() {
		return refuse("not a regular file")
	}
	if before.Size() > MaxSize {
		return refuse("larger than 64 MiB")
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxSize))
	if err != nil {
		return nil, Look{Info: before}, err
	}
	after, err := statOpenFile(f)
	if err != nil {
		return nil, Look{Info: before}, err
	}
	stable := int64(len(content)) == after.Size() && before.ModTime().Equal(after.ModTime())
	return content, Look{Info: after, Stable: stable}, nil
}
