package metadata

import "strings"

// HostPart returns text in lower case, with a hyphen for each character other than ASCII letters,
// digits, ".", "_" and "-". The result need not be a valid host.
func HostPart(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		default:
			return '-'
		}
	}, text)
}
