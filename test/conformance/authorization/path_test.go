package authorization

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"
)

// ways are parts of unusual spellings of a path: prefixes of a name, names, and suffixes.
var ways = struct{ before, names, behind []string }{ //nolint:gochecknoglobals // a table
	before: []string{
		"/", "//", "///", "/./", "/../", "/x/../", "/x//../", "/x/./../", `/\`, `/x\..\`, `/x/..\`, "/%2f", "/%2F", "/%5c", "/%5C", "/x%2f..%2f",
		"/x%5c..%5c", "/x/%2e%2e/", "/x/.%2E/", "/%2e/", "/x;/../", "/;x/../", "/x/..;/", "/%2e%2e%2f", "/..%2f", "/%252e%252e/", "/x%252f..%252f",
		"/x/%2e%2e%2f", `/x%2f..\`, "/%c0%af", "/x/..%c0%af", "/%u002f", "/x/%09/../",
	},
	names:  []string{"admin", "%61dmin", "admin", "a%64min", "%61%64%6D%69%6E", "Admin", "admin%00"},
	behind: []string{"", "/", "//", "/x", "?", "?x", "/.", "/x/..", "/%2e", "%2f", "%2Fx", "%5c", `\x`, ";a=b", "/;a", "#", "#x", "?#", "%23", "%3f", "%20", "/..;/x"},
}

// readings are the ways in which applications interpret a received path, one for each level of
// normalisation.
var readings = map[string]func(string) string{ //nolint:gochecknoglobals // a table
	"path_none":    plain,
	"path_base":    func(p string) string { return dotted(unescaped(plain(p), `/\`)) },
	"path_default": func(p string) string { return dotted(unescaped(plain(p), `/\`)) },
	"path_merge":   func(p string) string { return path.Clean(unescaped(plain(p), `/\`)) },
	"path_decode": func(p string) string {
		return path.Clean(strings.ReplaceAll(unescaped(plain(p), ""), `\`, "/"))
	},
}

// plain is the path without its query.
func plain(p string) string {
	p, _, _ = strings.Cut(p, "?")
	return p
}

// unescaped reads all escapes but those of some characters.
func unescaped(p, but string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if c, err := url.PathUnescape(p[i : i+3]); err == nil && !strings.Contains(but, c) {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// dotted resolves dots, and leaves empty segments.
func dotted(p string) string {
	var out []string
	for s := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		switch s {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// refused reports whether the scenes' policies deny a path, for an application that reads it in
// this form.
func refused(read string) bool { return read == "/admin" || strings.HasPrefix(read, "/admin/") }

// TestNoPathBypassesTheRules sends many spellings of a path that a DENY policy covers, at each
// level of normalisation. A request that is allowed must not arrive at the application with a path
// that is denied in another spelling. The explanation must agree.
func TestNoPathBypassesTheRules(t *testing.T) {
	scenes, tokens, authority := readScenes(t), newTokens(t), newSecrets()
	var paths []*scene
	for _, s := range scenes {
		if readings[s.name] != nil {
			paths = append(paths, s)
		}
	}
	if len(paths) != len(readings) {
		t.Fatalf("%d scenes for %d levels", len(paths), len(readings))
	}
	start(t, paths, authority, tokens)
	counts := map[string]int{}
	for _, s := range paths {
		for i, before := range ways.before {
			for k, behind := range ways.behind {
				name := ways.names[(i+k)%len(ways.names)]
				c := &testCase{scene: s, Name: "way", To: s.cases[0].To, Call: "GET " + before + name + behind}
				c.HTTP2 = k%4 == 0 && !strings.HasPrefix(before, "//") // which the client would take for a host
				o := c.do(t.Context(), t, authority, tokens)
				counts[s.name+" "+o.verdict()]++
				if o.verdict() == "allow" && refused(readings[s.name](o.body)) {
					t.Errorf("%s: %s slips by: the application gets %s", s.name, c.Call, o.body)
				}
				if explained, _ := verdictOf(c.explained(t, tokens)); explained != o.verdict() {
					t.Errorf("%s: %s is explained as %s, really %s", s.name, c.Call, explained, o)
				}
			}
		}
	}
	t.Log(fmt.Sprint(counts))
	for level := range readings {
		if counts[level+" allow"] == 0 || counts[level+" deny"] == 0 {
			t.Errorf("%s: no path is allowed, or none denied: the test is not effective", level)
		}
	}
}
