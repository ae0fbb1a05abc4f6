package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.env")
	if vars, err := ReadFile(path); vars != nil || err != nil {
		t.Errorf("a file that is not there has %v, %v", vars, err)
	}
	text := `# of a WorkloadGroup
CANONICAL_SERVICE='vm'
ISTIO_META_CLUSTER_ID=Kubernetes
export ISTIO_METAJSON_LABELS='{"app":"vm","note":"a=b"}'
PROXY_CONFIG="{\"concurrency\":2}"
ENDS_WITH_BACKSLASH="a\\"
EMPTY=
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	vars, err := ReadFile(path)
	want := Variables{
		"CANONICAL_SERVICE": "vm", "ISTIO_META_CLUSTER_ID": "Kubernetes", "ISTIO_METAJSON_LABELS": `{"app":"vm","note":"a=b"}`,
		"PROXY_CONFIG": `{"concurrency":2}`, "EMPTY": "",
		"ENDS_WITH_BACKSLASH": `a\`,
	}
	if diff := cmp.Diff(want, vars); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"A=1\nB": "line 2: expected NAME=VALUE", "=x": "line 1: expected", "a b=c": "line 1: expected", "A='x": "line 1: unterminated quote in the value of A", `A="`: "line 1: unterminated quote in the value of A",
		`A="abc\"`: "line 1: unterminated quote in the value of A",
	} {
		if _, err := ParseFile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", text, err, want)
		}
	}
}
