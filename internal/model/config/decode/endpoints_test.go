package decode

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestEndpoints: an Endpoints object is read as the EndpointSlices that an API server would mirror
// it into.
func TestEndpoints(t *testing.T) {
	const text = `apiVersion: v1
kind: Endpoints
metadata: {name: db, namespace: shop, labels: {app: db, kubernetes.io/service-name: other}}
subsets:
- addresses: [{ip: 192.0.2.1, hostname: one}, {ip: "2001:db8::1", nodeName: n1}]
  notReadyAddresses: [{ip: 192.0.2.2, targetRef: {kind: Pod, name: db-2}}]
  ports: [{name: tcp, port: 3306}]
- addresses: [{ip: bad}]
  ports: [{port: 3307, protocol: UDP, appProtocol: dns}]
`
	var got []string
	for _, d := range Manifest("f.yaml", []byte(text)) {
		if d.Config == nil || len(d.Problems) > 0 || d.Config.Origin != "f.yaml#1:1" {
			t.Fatalf("%+v", d)
		}
		slice := config.Spec[*discoveryv1.EndpointSlice](d.Config)
		body, err := yaml.Marshal(
			map[string]any{
				"labels":    slice.Labels,
				"type":      slice.AddressType,
				"endpoints": slice.Endpoints,
				"ports":     slice.Ports,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Key.String()+"\n"+string(body))
	}
	want := []string{`EndpointSlice/shop/db-0-ipv4
endpoints:
- addresses:
  - 192.0.2.1
  conditions:
    ready: true
  hostname: one
- addresses:
  - 192.0.2.2
  conditions:
    ready: false
  targetRef:
    kind: Pod
    name: db-2
labels:
  app: db
  kubernetes.io/service-name: db
ports:
- name: tcp
  port: 3306
  protocol: ""
type: IPv4
`, `EndpointSlice/shop/db-0-ipv6
endpoints:
- addresses:
  - 2001:db8::1
  conditions:
    ready: true
  nodeName: n1
labels:
  app: db
  kubernetes.io/service-name: db
ports:
- name: tcp
  port: 3306
  protocol: ""
type: IPv6
`, `EndpointSlice/shop/db-1-ipv4
endpoints:
- addresses:
  - bad
  conditions:
    ready: true
labels:
  app: db
  kubernetes.io/service-name: db
ports:
- appProtocol: dns
  name: ""
  port: 3307
  protocol: UDP
type: IPv4
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEndpointsOfManyForms(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"without addresses", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\n", "used EndpointSlice/default/a-none at 1:1\n"},
		{"a lock", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a, annotations: {control-plane.alpha.kubernetes.io/leader: '{}'}}\n", ""},
		{"mirrored already", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a, labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}}\n", ""},
		{
			"a field that there is not", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubset: []\n",
			"used EndpointSlice/default/a-none at 1:1\n  warning: EndpointSlice/default/a-none (f.yaml#1:4:1): subset: unknown field\n",
		},
		{
			"a wrong type", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubsets: {}\n",
			"unreadable // at 1:1\n  error: Endpoints//a (f.yaml#1:4:1): subsets: must be of type []v1.EndpointSubset, found object\n",
		},
		{
			"a wrong type and a key twice", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubsets: {}\nkind: Endpoints\n",
			"unreadable // at 1:1\n  error: Endpoints//a (f.yaml#1:4:1): subsets: must be of type []v1.EndpointSubset, found object\n" +
				"  error: Endpoints//a (f.yaml#1:5): key \"kind\" already set in map\n",
		},
		{
			"in a list, beside another", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Endpoints, metadata: {name: a}}\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n",
			"used EndpointSlice/default/a-none at 1:4\nused Service/default/a at 1:5\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, show(Manifest("f.yaml", []byte(test.in)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNamespaceName: a Namespace has the label that every API server sets, so that selectors can
// match it.
func TestNamespaceName(t *testing.T) {
	for _, labels := range []string{"", ", labels: {a: b, kubernetes.io/metadata.name: lie}"} {
		d := Manifest("f.yaml", []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop"+labels+"}\n"))
		c := d[0].Config
		if c == nil || c.Labels[corev1.LabelMetadataName] != "shop" ||
			config.Spec[*corev1.Namespace](c).Labels[corev1.LabelMetadataName] != "shop" {
			t.Fatalf("%+v", d)
		}
		if strings.Contains(labels, "a: b") && c.Labels["a"] != "b" {
			t.Errorf("labels %v", c.Labels)
		}
	}
}
