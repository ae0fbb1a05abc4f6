package watch

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links are followed on the way to a file, as in the kernel.
const maxLinks = 40

// Names gives the names that decide where an absolute path leads: every symbolic link on the way, and the end of it.
// Where something on the way is missing, it is the last name, for the path leads somewhere when that appears.
// What the path leads to can change only by a change of one of them, each of which is an event of its directory.
func Names(path string) []string {
	var names []string
	at, rest := "/", split(path)
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
			rest = append(split(target), rest...)
		default:
			at = next
		}
	}
	return append(names, at)
}

// split takes a path apart, without empty parts. ".." stays, because it may stand behind a link.
func split(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == filepath.Separator })
}
