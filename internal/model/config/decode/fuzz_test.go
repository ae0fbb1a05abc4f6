package decode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

const goodDocument = "\n---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: good}\nspec: {host: good}\n"

// FuzzManifest puts arbitrary bytes before a good document: nothing panics, the good document is
// read, and every Problem names a line that the file has.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		"", "---", "...\n", "a: [", "a: &x [*x]", "- 1\n- 2", "%YAML 1.1\n---\na", "kind: List\nitems: [1, {}]",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: x}], typo: 1}",
		"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a, a: 1}\nspec: {hosts: [a], http: [{timeout: 5}]}",
		"a: 1\na: 2", "\xef\xbb\xbfa: 1", "? {a: b}\n: c", "!!binary x", "a: !!float x", "a: .nan", "<<: {a: b}", "a: \"\\ud800\"",
		"\"\r\r\r\r0",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := string(data) + goodDocument
		objects := Manifest("f.yaml", []byte(text))
		last := objects[len(objects)-1]
		if last.Config == nil || last.Key.Name != "good" {
			t.Errorf("the good document is read as %v", last)
		}
		count := strings.Count(text, "\n") + 1
		for _, d := range objects {
			for _, p := range d.Problems {
				var document, line int
				if _, err := fmt.Sscanf(
					p.Origin,
					"f.yaml#%d:%d",
					&document,
					&line,
				); err != nil || document < 1 || line < 1 ||
					line > count {
					t.Errorf("problem at %q of %d lines: %v", p.Origin, count, err)
				}
			}
			if d.Config != nil && d.hasError() {
				t.Errorf("%s is used with errors", d.Key)
			}
		}
	})
}

func BenchmarkManifest(b *testing.B) {
	text := []byte(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop, labels: {app: reviews}}
spec:
  hosts: [reviews, reviews.shop.svc.cluster.local]
  http:
  - match:
    - headers: {end-user: {exact: jason}}
      uri: {regex: "^/reviews/[0-9]+$"}
    route:
    - destination: {host: reviews, subset: v2}
  - retries: {attempts: 3, perTryTimeout: 2s, retryOn: "5xx,reset"}
    timeout: 10s
    route:
    - {destination: {host: reviews, subset: v1, port: {number: 9080}}, weight: 90}
    - {destination: {host: reviews, subset: v3, port: {number: 9080}}, weight: 10}
`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if d := Manifest("f.yaml", text); len(d) != 1 || d[0].Config == nil {
			b.Fatal(show(d))
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	d := Manifest("f.yaml", []byte(goodDocument))
	for b.Loop() {
		if len(config.Validate(d[0].Config)) > 0 {
			b.Fatal("not valid")
		}
	}
}
