package reference

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	escape  = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	slashes = regexp.MustCompile(`//+`)
)

// Normalize returns a path, without a query, at a level of meshConfig.pathNormalization.
func Normalize(level, path string) string {
	switch level {
	case "NONE":
		return path
	case "MERGE_SLASHES":
		return slashes.ReplaceAllString(normalizeBase(path), "/")
	case "DECODE_AND_MERGE_SLASHES":
		path = decodeEscapes(path, func(c byte) bool { return c == '/' || c == '\\' })
		return slashes.ReplaceAllString(normalizeBase(path), "/")
	default:
		return normalizeBase(path)
	}
}

// normalizeBase is RFC 3986 section 6.2.2, after "\" is changed to "/": unreserved characters are
// decoded and dot segments removed.
func normalizeBase(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	return removeDots(decodeEscapes(path, func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
	}))
}

// decodeEscapes replaces the escapes of some characters.
func decodeEscapes(path string, wanted func(c byte) bool) string {
	return escape.ReplaceAllStringFunc(path, func(s string) string {
		c, err := strconv.ParseUint(s[1:], 16, 8)
		if err != nil || !wanted(byte(c)) {
			return s
		}
		return string(rune(c))
	})
}

// removeDots is RFC 3986 section 5.2.4.
func removeDots(path string) string {
	var out []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".":
		case "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "") // "/a/." is "/a/"
		}
	}
	return strings.Join(out, "/")
}
