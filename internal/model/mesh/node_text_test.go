package mesh

import (
	"strings"
	"testing"
)

// TestNodeIDsArePrintable: a node ID that could forge a log line is refused, with an error that is one short line itself.
func TestNodeIDsArePrintable(t *testing.T) {
	id := func(name string) string { return "sidecar~10.0.0.1~" + name + ".shop~shop.svc.cluster.local" }
	for name, c := range map[string]struct{ id, want string }{
		"line feed":      {id("web\n2026-01-01T00:00:00Z\tinfo\tca\tforged"), "not printable at byte 20"},
		"escape":         {id("web\x1b[2K"), "not printable"},
		"line separator": {id("web\u2028"), "not printable"},
		"next line":      {id("web\u0085"), "not printable"},
		"direction":      {id("web\u202e"), "not printable"},
		"NUL":            {id("web\x00"), "not printable"},
		"in the domain":  {id("web") + "\r\n", "not printable"},
		"no UTF-8":       {id("web\xff"), "not UTF-8"},
		"too long":       {id(strings.Repeat("x", MaxNodeText)), "more than 1024"},
	} {
		_, err := ParseNodeID(c.id)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n\r\x1b\u2028\u0085\u202e\x00") || len(err.Error()) > 1000 {
			t.Errorf("%s: the error itself forges lines: %.300q", name, err)
		}
	}
	for _, name := range []string{"reviews-v1-abc", "größe", strings.Repeat("x", 253)} {
		if _, err := ParseNodeID(id(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNodeIDWithoutNamespace: the name of a proxy need not have a dot, but a namespace that begins is
// not empty.
func TestNodeIDWithoutNamespace(t *testing.T) {
	for id, want := range map[string]string{
		"router~10.0.0.1~edge-1~example.com":    "edge-1 ",
		"router~10.0.0.1~edge.1.shop~":          "edge.1 shop",
		"router~10.0.0.1~edge-1.~example.com":   "",
		"router~10.0.0.1~.shop~example.com":     "",
		"router~10.0.0.1~~example.com":          "",
		"router~10.0.0.1~edge-1.shop~a~example": "",
	} {
		p, err := ParseNodeID(id)
		got := p.Name + " " + p.Namespace
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, error %v; want %q", id, got, err, want)
		}
	}
}
