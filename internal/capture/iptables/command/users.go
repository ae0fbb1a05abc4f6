package command

import (
	"fmt"
	"os/user"
	"strconv"
)

// Users looks up users and groups by name.
type Users struct {
	UID func(name string) (uint32, error)
	GID func(name string) (uint32, error)
}

// SystemUsers returns Users that looks names up in the host's user database. An unknown name is an
// error.
func SystemUsers() Users {
	return Users{
		UID: func(name string) (uint32, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, fmt.Errorf("look up user %q: %w", name, err)
			}
			return numericID(u.Uid)
		},
		GID: func(name string) (uint32, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return 0, fmt.Errorf("look up group %q: %w", name, err)
			}
			return numericID(g.Gid)
		},
	}
}

// parseIDs parses a comma-separated list of decimal numbers, or of names that it passes to resolve.
// It returns the first error.
func parseIDs(s string, resolve func(string) (uint32, error)) ([]uint32, error) {
	return parseList(s, func(item string) (uint32, error) { return parseID(item, resolve) })
}

// parseID parses a decimal number, or a name that it passes to resolve. It returns an error if the
// name is not known.
func parseID(s string, resolve func(string) (uint32, error)) (uint32, error) {
	if id, err := numericID(s); err == nil {
		return id, nil
	}
	id, err := resolve(s)
	if err != nil {
		return 0, valueError(s, "an ID or a known name")
	}
	return id, nil
}

// numericID parses a decimal number of 32 bits.
func numericID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err
}
