package command

import (
	"fmt"
	"os/user"
	"strconv"
)

// Users resolves the names of users and groups.
type Users struct {
	UID func(name string) (uint32, error)
	GID func(name string) (uint32, error)
}

// SystemUsers asks the user database of the machine.
func SystemUsers() Users {
	return Users{
		UID: func(name string) (uint32, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, fmt.Errorf("looking up user %q: %w", name, err)
			}
			return numericID(u.Uid)
		},
		GID: func(name string) (uint32, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return 0, fmt.Errorf("looking up group %q: %w", name, err)
			}
			return numericID(g.Gid)
		},
	}
}

func parseIDs(s string, resolve func(string) (uint32, error)) ([]uint32, error) {
	return parseList(s, func(item string) (uint32, error) { return parseID(item, resolve) })
}

// parseID takes a number, or a name for resolve.
func parseID(s string, resolve func(string) (uint32, error)) (uint32, error) {
	if id, err := numericID(s); err == nil {
		return id, nil
	}
	id, err := resolve(s)
	if err != nil {
		return 0, badValue(s, "an id, nor a name that is known here")
	}
	return id, nil
}

func numericID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err
}
