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
		return slashes.ReplaceAllString(base(path), "/")
	case "DECODE_AND_MERGE_SLASHES":
		path = decode(path, func(c byte) bool { return c == '/' || c == '\\' })
		return slashes.ReplaceAllString(base(path), "/")
	default:
		return base(path)
	}
}

// base is RFC 3986 section 6.2.2, after "\" is changed to "/": unreserved characters are decoded and dot segments removed.
func base(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	return removeDots(decode(path, func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
	}))
}

// decode replaces the escapes of some characters.
func decode(path string, wanted func(c byte) bool) string {
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
