package watch

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links are followed when resolving a path, as in the kernel.
const maxLinks = 40

// Names returns the names that determine to which file an absolute path resolves: every symbolic
// link on the way, and the final file. If a component is missing, it is the last name; after more
// than maxLinks links, or at an unreadable one, that link is. The path resolves to another file
// only after an event of one of these names in its directory, or after such a directory is deleted
// or renamed.
func Names(path string) []string {
	var names []string
	at, rest := "/", splitPath(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return append(names, next)
		case info.Mode()&os.ModeSymlink != 0:
			names = append(names, next)
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return names
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(splitPath(target), rest...)
		default:
			at = next
		}
	}
	return append(names, at)
}

// splitPath returns the components of a path without empty ones. ".." is kept, because it may
// follow a symbolic link.
func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == filepath.Separator })
}
