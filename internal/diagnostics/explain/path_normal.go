package explain

import (
	"fmt"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// normalPath normalizes a path with its query, as the connection manager is configured
// (path_with_escaped_slashes_action, normalize_path by RFC 3986, merge_slashes). rejected is true
// if Envoy refuses the path: it has a fragment, escaped slashes where they are rejected, or "%00"
// with normalize_path. A path without a leading slash is returned unchanged.
func normalPath(m *hcmv3.HttpConnectionManager, whole string) (canonical string, rejected bool) {
	path, query, hasQuery := strings.Cut(whole, "?")
	if !strings.HasPrefix(path, "/") {
		return whole, false // "OPTIONS *", or an authority
	}
	if strings.Contains(whole, "#") {
		return whole, true // servers disagree on whether a fragment is part of the path
	}
	escaped := strings.Contains(strings.ToLower(path), "%2f") || strings.Contains(strings.ToLower(path), "%5c")
	switch m.GetPathWithEscapedSlashesAction() {
	case hcmv3.HttpConnectionManager_REJECT_REQUEST:
		if escaped {
			return whole, true
		}
	case hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD, hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT:
		path = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`).Replace(path)
	}
	if m.GetNormalizePath().GetValue() {
		if strings.Contains(path, "%00") {
			return whole, true
		}
		path = escapeOthers(removeDots(unescapeUnreserved(strings.ReplaceAll(path, `\`, "/"))))
	}
	if m.GetMergeSlashes() {
		path = mergeSlashes(path)
	}
	if hasQuery {
		path += "?" + query
	}
	return path, false
}

// mergeSlashes removes empty segments from a path, like Envoy's PathUtil::mergeSlashes. It keeps a
// slash at each end, so a path of several slashes becomes "//". A path without "//" is returned
// unchanged.
func mergeSlashes(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	merged := strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
	if strings.HasPrefix(path, "/") {
		merged = "/" + merged
	}
	if strings.HasSuffix(path, "/") {
		merged += "/"
	}
	return merged
}

// unescapeUnreserved decodes the escape sequences of unreserved characters (RFC 3986, section 2.3).
// Sequences of other characters, and malformed ones, stay as they are.
func unescapeUnreserved(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			high, ok1 := hexDigit(path[i+1])
			low, ok2 := hexDigit(path[i+2])
			if c := high<<4 | low; ok1 && ok2 && isUnreserved(c) {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// escapeOthers percent-encodes the characters that Envoy does not allow in a path: space, control
// and non-ASCII characters, the double quote, and <>^`{|}.
func escapeOthers(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// hexDigit returns the value of a hexadecimal digit, and whether c is one.
func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// isUnreserved reports whether a character needs no escape in a URL (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// removeDots resolves the segments "." and ".." of a path that begins with "/" (RFC 3986, section
// 5.2.4). Parameters of a segment are ignored, so that "..;a" is "..".
func removeDots(path string) string {
	var out []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		name, _, _ := strings.Cut(s, ";") // servers with segment parameters would parse "..;a" as ".."
		switch name {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// withoutPort removes the port from "host:80" and "[::1]:80". It returns "host" and "[::1]"
// unchanged.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return host
	}
	return host[:colon]
}
