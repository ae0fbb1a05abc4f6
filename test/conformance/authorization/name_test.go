package authorization

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestNoNameBypassesTheCheck sends methods and hosts in all spellings, by HTTP/1 and HTTP/2, to
// policies that allow or deny some, or all others. A DENY matches each spelling of its names, and
// an ALLOW of all others matches none. T-AUTHZ-METHOD-CASE, T-NORM-HOST.
func TestNoNameBypassesTheCheck(t *testing.T) {
	scenes, tokens, authority := readScenes(t), newTokens(t), newSecrets()
	scenes = slices.DeleteFunc(scenes, func(s *scene) bool { return s.name != "operation" })
	start(t, scenes, authority, tokens)
	s, said := scenes[0], map[string]int{}
	call := func(to, method, host string, http2, named, allows bool) {
		t.Helper()
		c := &testCase{scene: s, Name: "name", To: to, Call: method + " /", Host: host, HTTP2: http2}
		o := c.do(t.Context(), t, authority, tokens)
		said[o.verdict()]++
		want := map[bool]string{true: "allow", false: "deny"}[named == allows]
		if got := o.verdict(); got != want && got != "bad" { // HTTP/1 has no lower-case methods
			t.Errorf("%s %s of host %q (HTTP/2: %v): %s, want %s", to, method, host, http2, o, want)
		}
		if o.verdict() == "bad" && http2 {
			t.Errorf("%s %s of host %q by HTTP/2: %s", to, method, host, o)
		}
	}
	for _, http2 := range []bool{false, true} {
		for _, method := range []string{"GET", "get", "Get", "gET", "POST", "post", "Post", "DELETE", "delete", "DeLeTe", "HEAD", "OPTIONS", "PURGE"} {
			upper := strings.ToUpper(method)
			call("what:8001", method, "", http2, upper == "GET" || upper == "HEAD", true)
			call("what:8003", method, "", http2, upper == "DELETE", false)
			call("refused:8001", method, "", http2, upper == "DELETE", false)
			call("refused:8002", method, "", http2, upper == "GET", true)
		}
		for _, name := range []string{"a.example.com", "private.example.com", "public.example.com", "b.example.com", "dev.example.org", "aXexample.com", "example.com"} {
			for _, form := range []string{name, strings.ToUpper(name), strings.ToTitle(name[:1]) + name[1:], name + ".", name + ":80", name + ".:8080", strings.ToUpper(name) + ":1", name + ":"} {
				call("what:8012", "GET", form, http2, name == "a.example.com", true)
				call("what:8013", "GET", form, http2, strings.HasSuffix(name, ".example.com"), true)
				call("what:8014", "GET", form, http2, strings.HasPrefix(name, "dev."), true)
				call("what:8015", "GET", form, http2, name == "a.example.com", false)
				call("refused:8003", "GET", form, http2, name == "private.example.com", false)
				call("refused:8004", "GET", form, http2, name == "public.example.com", true)
			}
		}
	}
	t.Log(fmt.Sprint(said))
	if said["allow"] < 50 || said["deny"] < 50 {
		t.Errorf("only the verdicts %v occurred: the test is not effective", said)
	}
}
