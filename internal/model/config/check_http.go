package config

import (
	"fmt"
	"slices"
	"strings"
)

// headerNameFault says why name cannot be the name of a header that is matched or listed. Pseudo-headers such as
// ":path" may be.
func headerNameFault(name string) string {
	if name == "" {
		return "a header name is required"
	}
	if !isToken(strings.TrimPrefix(name, ":")) {
		return fmt.Sprintf("%q is not a header name", name)
	}
	return ""
}

// isToken says whether text is a token of RFC 9110, section 5.6.2, which header names are.
func isToken(text string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(text[i])) {
			return false
		}
	}
	return text != ""
}

// methods are the HTTP methods of RFC 9110 and RFC 5789.
func methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
}

// httpStatus checks a status code that a proxy is to answer with itself.
func (r *report) httpStatus(at path, status int64) {
	if status < 200 || status > 599 {
		r.errorf(at, "HTTP status %d is not in the range 200..599", status)
	}
}

// maxHeader is how long the name and the value of a header that Envoy is to set may be, in bytes (its HeaderValue).
const maxHeader = 16 << 10

// headerValueFault says why a proxy would refuse a header's new value. It may hold commands such as
// "%REQ(:authority)%" (Envoy, "Custom request/response headers"); a percent sign itself is written "%%".
func headerValueFault(value string) string {
	if strings.ContainsAny(value, "\x00\r\n") {
		return fmt.Sprintf("%q has a line break or a zero byte", value)
	}
	if len(value) > maxHeader {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(value), maxHeader)
	}
	for rest := value; ; {
		before, after, found := strings.Cut(rest, "%")
		if !found {
			return ""
		}
		if strings.HasPrefix(after, "%") {
			rest = after[1:]
			continue
		}
		n := commandLength(after)
		if n == 0 {
			return fmt.Sprintf("%q: the \"%%\" at position %d begins no command such as %%REQ(name)%%; a percent sign itself is written \"%%%%\"",
				value, len(value)-len(rest)+len(before)+1)
		}
		rest = after[n:]
	}
}

// commandLength gives the length of the command with its closing "%" at the beginning of text, 0 if there is none:
// NAME, then perhaps (arguments), then perhaps :length.
func commandLength(text string) int {
	isName := func(c byte) bool { return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }
	i := 0
	for i < len(text) && isName(text[i]) {
		i++
	}
	if i == 0 {
		return 0
	}
	if i < len(text) && text[i] == '(' {
		end := strings.Index(text[i:], ")")
		if end < 0 {
			return 0
		}
		i += end + 1
	}
	if i < len(text) && text[i] == ':' {
		for i++; i < len(text) && text[i] >= '0' && text[i] <= '9'; {
			i++
		}
	}
	if i < len(text) && text[i] == '%' {
		return i + 1
	}
	return 0
}

// headerNames checks a list of header names.
func (r *report) headerNames(at path, names []string) {
	for i, name := range names {
		r.fault(at.Index(i), headerNameFault(name))
	}
}

// httpMethods checks a list of methods in which "*" stands for all.
func (r *report) httpMethods(at path, list []string) {
	for i, method := range list {
		if method != "*" && !slices.Contains(methods(), method) {
			r.errorf(at.Index(i), "%q is not an HTTP method, must be \"*\" or one of %s", method, strings.Join(methods(), ", "))
		}
	}
}
