package ca

import (
	"context"
	"errors"
)

// KeyStore persists an authority's files between runs, for one control plane or for several
// replicas that share it.
type KeyStore interface {
	// String returns the location for logs and errors.
	String() string
	// Load returns the stored files and their version. The error is errNoAuthority if no key is
	// stored.
	Load(ctx context.Context) (Files, string, error)
	// Store replaces the given version of the files atomically; version "" creates them. It returns
	// errConflict if another version is stored, and errReadOnly if operators own the files.
	Store(ctx context.Context, f Files, version string) error
	// Watch calls changed whenever there may be a new version, until ctx ends. It may call it
	// without a change.
	Watch(ctx context.Context, changed func()) error
}

// Exists reports whether an authority's key is stored in h. It returns false with the error if that
// is not known.
func Exists(ctx context.Context, h KeyStore) (bool, error) {
	_, _, err := h.Load(ctx)
	if errors.Is(err, errNoAuthority) {
		return false, nil
	}
	return err == nil, err
}

// errConflict means that another replica stored a version first.
var errConflict = errors.New("another version was stored concurrently")

// errReadOnly means that operators own the files, so only they may replace them.
var errReadOnly = errors.New("the files are managed by an operator and are read-only")
