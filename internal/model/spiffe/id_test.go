package spiffe

import (
	"regexp"
	"strings"
	"testing"
)

// pattern is the standard in another form, written independently of the parser. Dots alone are looked at apart.
var pattern = regexp.MustCompile(`\Aspiffe://[a-z0-9._-]{1,255}((?:/[a-zA-Z0-9._-]+)*)\z`)

func valid(text string) bool {
	m := pattern.FindStringSubmatch(text)
	return m != nil && len(text) <= 2048 && !strings.Contains(m[1]+"/", "/./") && !strings.Contains(m[1]+"/", "/../")
}

// cases are texts and whether they are IDs. T-SPIFFE-PARSE.
func cases() map[string]bool {
	list := map[string]bool{
		"spiffe://cluster.local":                      true,
		"spiffe://cluster.local/ns/default/sa/web":    true,
		"spiffe://a/b/c/d/e/f/g":                      true,
		"spiffe://1.2.3.4/x":                          true,
		"spiffe://a_b-c.d/A_B-C.D":                    true,
		"spiffe://a/...":                              true,
		"spiffe://a/.b":                               true,
		"spiffe://-/-":                                true,
		"spiffe://..":                                 true,
		"spiffe://" + strings.Repeat("a", 255):        true,
		"spiffe://" + strings.Repeat("a", 255) + "/b": true,
		"spiffe://a/" + strings.Repeat("b", 2048-len("spiffe://a/")): true,

		"":                                     false,
		"spiffe":                               false,
		"spiffe:":                              false,
		"spiffe:/":                             false,
		"spiffe://":                            false,
		"spiffe:///ns/a/sa/b":                  false,
		"spiffe:a":                             false,
		"spiffe:/a/b":                          false,
		"SPIFFE://a/b":                         false,
		"Spiffe://a/b":                         false,
		"http://a/b":                           false,
		"https://a/b":                          false,
		"spiffe://A/b":                         false,
		"spiffe://a.B/b":                       false,
		" spiffe://a/b":                        false,
		"spiffe://a/b ":                        false,
		"spiffe://a/b\n":                       false,
		"spiffe://a/":                          false,
		"spiffe://a//":                         false,
		"spiffe://a//b":                        false,
		"spiffe://a/b/":                        false,
		"spiffe://a/b//c":                      false,
		"spiffe://a/.":                         false,
		"spiffe://a/..":                        false,
		"spiffe://a/./b":                       false,
		"spiffe://a/../b":                      false,
		"spiffe://a/b/..":                      false,
		"spiffe://a/b/../c":                    false,
		"spiffe://a?b":                         false,
		"spiffe://a/b?c":                       false,
		"spiffe://a/b?":                        false,
		"spiffe://a#b":                         false,
		"spiffe://a/b#":                        false,
		"spiffe://a:80/b":                      false,
		"spiffe://a:/b":                        false,
		"spiffe://u@a/b":                       false,
		"spiffe://u:p@a/b":                     false,
		"spiffe://[::1]/b":                     false,
		"spiffe://a%2eb/c":                     false,
		"spiffe://a/b%2fc":                     false,
		"spiffe://a/%62":                       false,
		"spiffe://a/b\x00":                     false,
		"spiffe://a\x00b/c":                    false,
		"spiffe://é/b":                         false,
		"spiffe://a/é":                         false,
		"spiffe://a/b\\c":                      false,
		"spiffe://a/*":                         false,
		"spiffe://*/b":                         false,
		"spiffe://a/ns/default/sa/*":           false,
		"spiffe://a/b,spiffe://a/c":            false,
		"spiffe://spiffe://a/b":                false,
		"spiffe://" + strings.Repeat("a", 256): false,
		"spiffe://a/" + strings.Repeat("b", 2049-len("spiffe://a/")): false,
	}
	for c := range 256 { // each byte in the trust domain and in the path
		for _, where := range []string{"spiffe://x@y/z", "spiffe://y/x@z"} {
			text := strings.Replace(where, "@", string([]byte{byte(c)}), 1)
			list[text] = valid(text)
		}
	}
	return list
}

func TestParse(t *testing.T) {
	list := cases()
	if len(list) < 300 {
		t.Fatalf("%d cases, want 300", len(list))
	}
	for text, want := range list {
		id, err := Parse(text)
		if got := err == nil; got != want || valid(text) != want {
			t.Errorf("Parse(%q) = %v, want valid: %v (by the pattern: %v)", text, err, want, valid(text))
		}
		if err == nil && id.String() != text || err != nil && !id.IsZero() {
			t.Errorf("Parse(%q) = %q", text, id)
		}
	}
}

func FuzzParse(f *testing.F) {
	for text := range cases() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if (err == nil) != valid(text) {
			t.Fatalf("Parse(%q) = %v, valid by the pattern: %v", text, err, valid(text))
		}
		if err != nil {
			return
		}
		if id.String() != text || id.URL().String() != text {
			t.Fatalf("Parse(%q) = %q, as URL %q", text, id, id.URL())
		}
		if a, ok := id.Account(); ok {
			if again, err := a.ID(); err != nil || again != id {
				t.Fatalf("the account %v of %q is %q, %v", a, text, again, err)
			}
		}
	})
}

// TestAllocations: parsing and formatting IDs, which every authenticated stream and every snapshot of accounts does, allocates nothing.
func TestAllocations(t *testing.T) {
	const text = "spiffe://cluster.local/ns/default/sa/web"
	if n := testing.AllocsPerRun(100, func() {
		id, err := Parse(text)
		a, ok := id.Account()
		if err != nil || !ok || a.Name != "web" || id.String() != text || id.TrustDomain() != "cluster.local" {
			t.Fatal(id, a, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAccounts(t *testing.T) {
	for text, want := range map[string]Account{
		"spiffe://td/ns/a/sa/b":   {"td", "a", "b"},
		"spiffe://td/ns/sa/sa/ns": {"td", "sa", "ns"},
		"spiffe://td/ns/sa/sa/sa": {"td", "sa", "sa"},
		"spiffe://td/ns/a/sa/b/c": {},
		"spiffe://td/ns/a/b/sa/c": {},
		"spiffe://td/x/ns/a/sa/b": {},
		"spiffe://td/ns/a/sa":     {},
		"spiffe://td/ns/a":        {},
		"spiffe://td/NS/a/sa/b":   {},
		"spiffe://td":             {},
		"spiffe://td/sa/a/ns/b":   {},
	} {
		id, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := id.Account(); got != want || ok != (want != Account{}) {
			t.Errorf("%s names %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, bad := range []Account{
		{}, {"td", "", "b"}, {"td", "a", ""}, {"", "a", "b"}, {"td", "a/sa/x", "b"}, {"td", "a", "b/c"}, {"td", "..", "b"}, {"TD", "a", "b"},
		{"td", "a", "b\x00"}, {"td/ns/x/sa/y", "a", "b"},
	} {
		if id, err := bad.ID(); err == nil {
			t.Errorf("%#v is %s", bad, id)
		}
	}
}

// subjects are those of tokens. T-JWT-SUB.
func subjects() map[string]bool {
	return map[string]bool{
		"system:serviceaccount:default:web":                   true,
		"system:serviceaccount:a:b.c-d":                       true,
		"system:serviceaccount:0:1":                           true,
		"":                                                    false,
		":::":                                                 false,
		"system:serviceaccount":                               false,
		"system:serviceaccount:":                              false,
		"system:serviceaccount::":                             false,
		"system:serviceaccount:a":                             false,
		"system:serviceaccount:a:":                            false,
		"system:serviceaccount::b":                            false,
		"system:serviceaccount:a:b:c":                         false,
		"system:serviceaccount:a:b:c:d":                       false,
		"x:serviceaccount:a:b":                                false,
		"system:node:a:b":                                     false,
		"system:serviceaccount:A:b":                           false,
		"system:serviceaccount:a:b/c":                         false,
		"system:serviceaccount:a:b\x00":                       false,
		"system:serviceaccount:a:é":                           false,
		" system:serviceaccount:a:b":                          false,
		"system:serviceaccount:-a:b":                          false,
		"system:serviceaccount:a:..":                          false,
		"kubernetes-admin":                                    false,
		strings.Repeat("a:", 1<<19):                           false,
		"system:serviceaccount:a:" + strings.Repeat("b", 254): false,
		"system:serviceaccount:a:" + strings.Repeat("b", 253): true,
	}
}

func TestSubjects(t *testing.T) {
	for text, want := range subjects() {
		namespace, name, err := ParseSubject(text)
		if (err == nil) != want {
			t.Errorf("%.80q: got %s %s %v, want valid: %v", text, namespace, name, err, want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes, too many of them from the client's input", len(err.Error()))
		}
	}
}

func FuzzSubject(f *testing.F) {
	for text := range subjects() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		namespace, name, err := ParseSubject(text)
		if err != nil {
			return
		}
		if "system:serviceaccount:"+namespace+":"+name != text {
			t.Fatalf("%q is parsed as %s of %s", text, name, namespace)
		}
		if _, err := (Account{"td", namespace, name}).ID(); err != nil {
			t.Fatalf("%q has no ID: %v", text, err)
		}
	})
}
