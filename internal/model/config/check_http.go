package config

import (
	"fmt"
	"slices"
	"strings"
)

// HeaderNameFault returns why name cannot be the name of a header to match, list or change, or ""
// if it can. Pseudo-headers such as ":path" are allowed.
func HeaderNameFault(name string) string {
	if name == "" {
		return "a header name is required"
	}
	if !isToken(strings.TrimPrefix(name, ":")) {
		return fmt.Sprintf("%q is not a header name", name)
	}
	return ""
}

// isToken reports whether text is a token (RFC 9110, section 5.6.2), as header names must be.
func isToken(text string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(text[i])) {
			return false
		}
	}
	return text != ""
}

// httpMethods returns the HTTP methods of RFC 9110 and RFC 5789.
func httpMethods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
}

// checkHTTPStatus adds an Error if the status code of a response that a proxy generates is not in
// the range 200 to 599.
func (r *report) checkHTTPStatus(at path, status int64) {
	if status < 200 || status > 599 {
		r.errorf(at, "HTTP status %d is not in the range 200..599", status)
	}
}

// maxHeader is the maximum length, in bytes, of the name and of the value of a header that Envoy
// sets (its HeaderValue).
const maxHeader = 16 << 10

// HasControlCharacter reports whether a text has a control character other than a tab. Envoy refuses
// such values of headers, and paths.
func HasControlCharacter(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// HeaderValueFault returns why a header's new value is invalid, or "" if it is valid. It refuses
// control characters except tabs, more than maxHeader bytes, and a "%" that begins no command such
// as "%REQ(:authority)%". A percent sign is escaped as "%%". It does not check that Envoy knows the
// command.
func HeaderValueFault(value string) string {
	if HasControlCharacter(value) {
		return fmt.Sprintf("%q has a control character", value)
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
			return fmt.Sprintf(
				"%q: the \"%%\" at position %d begins no command such as %%REQ(name)%%; a percent sign itself is written \"%%%%\"",
				value, len(value)-len(rest)+len(before)+1)
		}
		rest = after[n:]
	}
}

// commandLength returns the length of the command at the beginning of text, with its closing "%";
// the opening "%" is not part of text. It returns 0 if there is no complete command. A command is
// NAME (upper-case letters, digits and underscores), then optionally (arguments), then optionally
// :length.
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

// checkHeaderNames adds an Error for each item of names that is not a header name. Pseudo-headers
// are allowed.
func (r *report) checkHeaderNames(at path, names []string) {
	for i, name := range names {
		r.addFault(at.Index(i), HeaderNameFault(name))
	}
}

// checkHTTPMethods adds an Error for each item of list that is neither "*", which matches all
// methods, nor an HTTP method in upper case (httpMethods).
func (r *report) checkHTTPMethods(at path, list []string) {
	for i, method := range list {
		if method != "*" && !slices.Contains(httpMethods(), method) {
			r.errorf(at.Index(i), "%q is not an HTTP method, must be \"*\" or one of %s", method,
				strings.Join(httpMethods(), ", "))
		}
	}
}
