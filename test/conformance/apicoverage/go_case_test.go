package apicoverage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoTestNamesTheField: a test of Go is a case of a field if its own body, a table that it uses or a
// file of testdata that it names has the field, the one above it, and the value. Comments, other tests
// and parts of words do not count.
func TestGoTestNamesTheField(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": `package a

var table = []Probe{{HTTPGet: HTTP{Scheme: "HTTPS", Path: "/"}}}

func TestOne(t *testing.T) { // tlsSettings: {sni: a}
	run(Settings{TlsSettings: TLS{Mode: pb.TLS_MUTUAL, Modern: true}})
}

func TestTable(t *testing.T) { run(table) }

func TestFile(t *testing.T) { run("testdata/*.yaml") }
`,
		"testdata/b.yaml": "tlsSettings: {sni: a}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ test, field, fault string }{
		{"TestOne", "a.tlsSettings.mode", ""},
		{"TestOne", "tlsSettings.mode=MUTUAL", ""},
		{"TestOne", "tlsSettings.mode=SIMPLE", "names SIMPLE"},
		{"TestOne", "tlsSettings.sni", "names sni"},
		{"TestOne", "tlsSettings.mod", "names mod"},
		{"TestOne", "server.mode", "names server"},
		{"TestTable", "HTTPGet.scheme=HTTPS", ""},
		{"TestTable", "tlsSettings.mode", "names tlsSettings"},
		{"TestFile", "tlsSettings.sni", ""},
		{"TestNone", "tlsSettings.sni", "no TestNone"},
	} {
		err := checkGoTest(dir, tc.test, tc.field)
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.HasSuffix(err.Error(), tc.fault)) {
			t.Errorf("%s of %s: %v, want %q", tc.field, tc.test, err, tc.fault)
		}
	}
}
