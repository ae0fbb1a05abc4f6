package decode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// show writes objects as a person would list them: a line each, then their Problems.
func show(objects []Decoded) string {
	var b strings.Builder
	for _, d := range objects {
		state := "used"
		switch {
		case d.Foreign:
			state = "foreign"
		case d.IsUnreadable():
			state = "unreadable"
		case d.Config == nil:
			state = "unusable"
		}
		fmt.Fprintf(&b, "%s %s at %d:%d\n", state, d.Key, d.Document, d.Line)
		if d.Config != nil && d.Config.Origin != fmt.Sprintf("f.yaml#%d:%d", d.Document, d.Line) &&
			!strings.HasPrefix(d.Config.Origin, "f.json") {
			fmt.Fprintf(&b, "  wrong origin %s\n", d.Config.Origin)
		}
		for _, p := range d.Problems {
			fmt.Fprintf(&b, "  %s: %s\n", p.Severity, p)
		}
	}
	return b.String()
}

func TestManifest(t *testing.T) {
	for _, test := range []struct{ name, file, in, want string }{
		{"empty", "f.yaml", "", ""},
		{"comments and empty documents are no documents", "f.yaml", "# a\n---\n---\n# b\n...\n%YAML 1.1\n---\n\n", ""},
		{"one object", "f.yaml", `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: reviews
spec:
  host: reviews
`, "used DestinationRule/default/reviews at 1:2\n"},
		{"a broken document hurts no other", "f.yaml", `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: one, namespace: shop}
spec: {host: one}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: two
  namespace: shop
spec:
  hosts: [two
  http: []
--- # the third
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: three}
spec: {host: three}
`, `used DestinationRule/shop/one at 1:1
unreadable // at 2:12
  error: VirtualService/shop/two (f.yaml#2:12): invalid YAML: did not find expected ',' or ']'
used DestinationRule/default/three at 3:15
`},
		{"fields are named with their lines", "f.yaml", `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: reviews
spec:
  hosts: [reviews]
  http:
  - match:
    - headers:
        end.user:
          regex: "[a"
    route:
    - destination: {host: reviews, subst: v1}
      weight: "ten"
    timeout: 5
    retries:
      per_try_timeout: 5parsecs
`, `unusable VirtualService/default/reviews at 1:1
  error: VirtualService/default/reviews (f.yaml#1:17:7): spec.http[0].retries.perTryTimeout: "5parsecs" is not a duration such as "1.5s" or "1m"
  error: VirtualService/default/reviews (f.yaml#1:13:36): spec.http[0].route[0].destination.subst: unknown field; did you mean "subset"?
  error: VirtualService/default/reviews (f.yaml#1:14:7): spec.http[0].route[0].weight: must be a whole number, found the string "ten"
  error: VirtualService/default/reviews (f.yaml#1:15:5): spec.http[0].timeout: must be a duration in quotes such as "1.5s" or "1m", found the number 5
  error: VirtualService/default/reviews (f.yaml#1:11:11): spec.http[0].match[0].headers[end.user].regex: invalid regular expression (RE2 syntax): missing closing ]: ` + "`[a`" + `
`},
		{"validation has lines too", "f.yaml", `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - match:
    - headers:
        end.user:
          regex: "[a"
    route:
    - destination:
        host: reviews
`, `unusable VirtualService/default/reviews at 1:1
  error: VirtualService/default/reviews (f.yaml#1:10:11): spec.http[0].match[0].headers[end.user].regex: invalid regular expression (RE2 syntax): missing closing ]: ` + "`[a`" + `
`},
		{"a key twice", "f.yaml", `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: one}
spec:
  host: a
  host: b
`, `unusable DestinationRule/default/one at 1:1
  error: DestinationRule/default/one (f.yaml#1:6): key "host" already set in map
`},
		{"kinds", "f.yaml", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
---
apiVersion: networking.istio.io/v1
kind: VirtualServce
metadata: {name: b}
---
apiVersion: networking.istio.io/v2
kind: VirtualService
metadata: {name: c}
---
apiVersion: networking.isto.io/v1
kind: VirtualService
metadata: {name: d}
---
kind: VirtualService
---
apiVersion: v1
---
just text
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: e}
`, `foreign // at 1:2
  warning: Deployment//a (f.yaml#1:3:1): kind: Deployment of apps/v1 is not read by meshpilot
unreadable // at 2:6
  error: VirtualServce//b (f.yaml#2:7:1): kind: unknown kind "VirtualServce" in group "networking.istio.io"; did you mean "VirtualService"?
unusable VirtualService/default/c at 3:10
  error: VirtualService/default/c (f.yaml#3:10:1): apiVersion: version "v2" of VirtualService is not served, only v1, v1beta1, v1alpha3
unreadable // at 4:14
  error: VirtualService//d (f.yaml#4:14:1): apiVersion: kind VirtualService is in group "networking.istio.io", not "networking.isto.io"
unreadable // at 5:18
  error: VirtualService// (f.yaml#5:18:1): apiVersion: is required
unreadable // at 6:20
  error: unreadable object (f.yaml#6:20:1): kind: is required
unreadable // at 7:22
  error: unreadable object (f.yaml#7:22): is not an object with apiVersion, kind and metadata
used Gateway.gateway.networking.k8s.io/default/e at 8:24
`},
		{"metadata", "f.yaml", `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  generateName: a
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: a
  lables: {a: b}
spec: {host: a}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: b
  labels: {version: 1}
spec: {host: a}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: Not_A_Name
specs: {host: a}
`, `unreadable // at 1:1
  error: DestinationRule// (f.yaml#1:3:1): metadata.name: is required
used DestinationRule/default/a at 2:6
  warning: DestinationRule/default/a (f.yaml#2:10:3): metadata.lables: unknown field
unusable DestinationRule/default/b at 3:13
  error: DestinationRule/default/b (f.yaml#3:17:3): metadata.labels: must be of type string, found number
unusable DestinationRule/default/Not_A_Name at 4:20
  error: DestinationRule/default/Not_A_Name (f.yaml#4:24:1): specs: unknown field
`},
		{"Kubernetes objects are used in spite of unknown fields", "f.yaml", `apiVersion: v1
kind: Service
metadata: {name: reviews}
spec:
  ports:
  - name: http
    prot: 9080
    port: 9080
---
apiVersion: v1
kind: Service
metadata: {name: ratings}
spec:
  ports:
  - port: http
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`, `used Service/default/reviews at 1:1
  warning: Service/default/reviews (f.yaml#1:7:5): spec.ports[0].prot: unknown field
unusable Service/default/ratings at 2:10
  error: Service/default/ratings (f.yaml#2:14:3): spec.ports.port: must be of type int32, found string
used Namespace//shop at 3:17
`},
		{"lists are unfolded", "f.yaml", `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: a}
- apiVersion: networking.istio.io/v1
  kind: DestinationRule
  metadata: {name: b}
  spec:
    host: "b b"
`, `used Service/default/a at 1:4
unusable DestinationRule/default/b at 1:7
  error: DestinationRule/default/b (f.yaml#1:11:5): spec.host: "b b" is not a host name: "b b" must be 1 to 63 letters, digits or "-", beginning and ending with a letter or digit
`},
		{"JSON", "f.json", `
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
{
	"apiVersion": "networking.istio.io/v1",
	"kind": "DestinationRule",
	"metadata": {"name": "b"},
	"spec": {
		"host": "b",
		"host": "c"
	}
}
{"apiVersion": "v1", "kind": ]
`, `used Service/default/a at 1:2
unusable DestinationRule/default/b at 2:3
  error: DestinationRule/default/b (f.json#2:8:3): spec.host: duplicate field
unreadable // at 3:12
  error: unreadable object (f.json#3:12): invalid JSON: invalid character ']' looking for beginning of value
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, show(Manifest(test.file, []byte(test.in)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestFillsIn(t *testing.T) {
	objects := Manifest("f.yaml", []byte(`
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata:
  name: a
  namespace: shop
  labels: {app: a}
  annotations: {x: z}
  creationTimestamp: "2024-01-02T03:04:05Z"
  resourceVersion: "7"
  generation: 3
spec:
  hosts: [a]
  http:
  - timeout: 1m30s
    route:
    - destination: {host: a}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: shop}
data: {a: YQ==, b: Yg==}
stringData: {b: c}
`))
	if len(objects) != 2 || objects[0].Config == nil || objects[1].Config == nil {
		t.Fatalf("got %s", show(objects))
	}
	vs := objects[0].Config
	got := fmt.Sprintf("%v %v %v %s %d %v", vs.Labels, vs.Annotations, vs.Created.UTC(),
		vs.ResourceVersion, vs.Generation,
		config.Spec[*networking.VirtualService](vs).GetHttp()[0].GetTimeout().AsDuration())
	if want := "map[app:a] map[x:z] 2024-01-02 03:04:05 +0000 UTC 7 3 1m30s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	secret := config.Spec[*corev1.Secret](objects[1].Config)
	if string(secret.Data["a"]) != "a" || string(secret.Data["b"]) != "c" || secret.StringData != nil {
		t.Errorf("got secret data %q and %q", secret.Data, secret.StringData)
	}
}
