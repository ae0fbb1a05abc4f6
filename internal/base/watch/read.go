package watch

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// MaxSize bounds what is read of one file, in bytes.
const MaxSize = 64 << 20

// Look is what a file was like when it was read.
type Look struct {
	// Info is of the open file, so of what was read even if the path leads elsewhere by now.
	Info Info
	// Stable says that nothing was written to it meanwhile.
	Stable bool
}

// Read reads a regular file of at most MaxSize bytes.
func Read(path string) ([]byte, Look, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe must not wait for its writer
	if err != nil {
		return nil, Look{}, err
	}
	defer f.Close()
	before, err := statOpen(f)
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
	after, err := statOpen(f)
	if err != nil {
		return nil, Look{Info: before}, err
	}
	stable := int64(len(content)) == after.Size() && before.ModTime().Equal(after.ModTime())
	return content, Look{Info: after, Stable: stable}, nil
}
