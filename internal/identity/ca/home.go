package ca

import (
	"context"
	"errors"
)

// Home is where an authority's files are kept from one run to the next, for one control plane or for several replicas.
type Home interface {
	// String names the place to people.
	String() string
	// Load gives what is kept there, and its version. The error is errNoAuthority if that is nothing.
	Load(ctx context.Context) (Files, string, error)
	// Store keeps files in the place of a version, "" for nothing: either all of them or, with an error, none. errConflict says that there
	// is another version by now.
	Store(ctx context.Context, f Files, version string) error
	// Watch calls changed whenever there may be another version, until the context ends. It may call it without need.
	Watch(ctx context.Context, changed func()) error
}

// Holds says whether there is anything of an authority at a place.
func Holds(ctx context.Context, h Home) (bool, error) {
	_, _, err := h.Load(ctx)
	if errors.Is(err, errNoAuthority) {
		return false, nil
	}
	return err == nil, err
}

// errConflict says that somebody else was faster.
var errConflict = errors.New("another one was stored meanwhile")

// errReadOnly says that what operators have put into a place is theirs to replace.
var errReadOnly = errors.New("what operators have brought is not written to")
