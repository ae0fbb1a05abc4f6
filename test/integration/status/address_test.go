package status

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

const entry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db}
spec:
  hosts: [Db.example.com, replica.example.com]
  ports: [{name: tcp, number: 3306, protocol: TCP}]
  resolution: DNS
`

// statusAddresses returns the addresses in an object's status, as "host address".
func (l *lab) statusAddresses(u *unstructured.Unstructured) []string {
	l.Helper()
	list, _, _ := unstructured.NestedSlice(l.get(u).Object, "status", "addresses")
	var out []string
	for _, a := range list {
		a, _ := a.(map[string]any)
		out = append(out, fmt.Sprint(a["host"], " ", a["value"]))
	}
	return out
}

func TestAddressesOfServiceEntries(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	a := l.replica("pilot-a", nil)
	l.replica("pilot-b", nil)
	se := l.apply(entry)
	var got []string
	began := time.Now()
	l.eventually("addresses", func() error {
		if got = l.statusAddresses(se); len(got) != 4 {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
	t.Logf("addresses after %v", time.Since(began))
	if said := l.waitFor(se, "True"); said == "" {
		t.Error("the condition has no message")
	}
	t.Logf("a condition after %v", time.Since(began))
	at := l.get(se).GetResourceVersion()
	p := a.connect("one", "10.1.0.1", nil)
	l.eventually("a proxy is served", func() error { return served([]string{api.ClusterType, api.ListenerType}, p) })
	p.Leave()

	t.Log("A host is added, with an address that another control plane has given it; the others stay.")
	if _, err := l.client.Dynamic.Resource(resource(l, "ServiceEntry")).Namespace(l.shop).Patch(t.Context(), "db", merge,
		[]byte(`{"status": {"addresses": [{"host": "db.example.com", "value": "240.240.7.7"}, {"host": "db.example.com", "value": "2001:2::7"}, {"host": "gone.example.com", "value": "240.240.8.8"}]}}`), patchOptions, "status"); err != nil {
		t.Fatal(err)
	}
	l.eventually("addresses", func() error {
		now := l.statusAddresses(se)
		if len(now) != 4 || !slices.Contains(now, "db.example.com 240.240.7.7") || !slices.Contains(now, "db.example.com 2001:2::7") || !slices.Contains(now, got[2]) {
			return fmt.Errorf("there are %q, were %q", now, got)
		}
		return nil
	})
	if l.get(se).GetResourceVersion() == at {
		t.Error(errors.New("nothing was written"))
	}
}

func TestAddressesOfIngresses(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	a := l.replica("pilot-a", func(o *discovery.Options) { o.Registry.IngressNamespace = l.shop })
	gateway := l.apply(`
apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway}
spec: {type: LoadBalancer, ports: [{name: http, port: 80}], selector: {istio: ingressgateway}}
`)
	ours := l.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: ours, annotations: {kubernetes.io/ingress.class: istio}}
spec: {rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`)
	theirs := l.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: theirs, annotations: {kubernetes.io/ingress.class: nginx}}
spec: {rules: [{host: other.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`)
	balanced := func(status string) {
		l.Helper()
		if _, err := l.client.Dynamic.Resource(resource(l, "Service")).Namespace(l.shop).Patch(t.Context(), gateway.GetName(), merge,
			[]byte(`{"status": {"loadBalancer": {"ingress": `+status+`}}}`), patchOptions, "status"); err != nil {
			t.Fatal(err)
		}
	}
	found := func(want string) {
		l.Helper()
		l.eventually("addresses of the Ingress", func() error {
			list, _, _ := unstructured.NestedSlice(l.get(ours).Object, "status", "loadBalancer", "ingress")
			if got := fmt.Sprint(list); got != want {
				return fmt.Errorf("there are %s, want %s", got, want)
			}
			return nil
		})
	}
	balanced(`[{"ip": "192.0.2.1", "ipMode": "VIP"}]`)
	found("[map[ip:192.0.2.1]]")
	pushes := a.metric("pilot_push_triggers")
	balanced(`[{"ip": "192.0.2.2", "ipMode": "VIP"}, {"hostname": "lb.example.com"}]`)
	found("[map[ip:192.0.2.2] map[hostname:lb.example.com]]")
	t.Logf("%v pushes before the second address, %v after", pushes, a.metric("pilot_push_triggers"))
	if list, _, _ := unstructured.NestedSlice(l.get(theirs).Object, "status", "loadBalancer", "ingress"); len(list) != 0 {
		t.Errorf("another one's Ingress has addresses: %v", list)
	}
}

// TestNodeAddressesOfIngresses: where the mesh names no Service of the gateways, an Ingress is found at the nodes that run one.
func TestNodeAddressesOfIngresses(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	file := t.TempDir() + "/mesh"
	if err := os.WriteFile(file, []byte(`ingressService: ""`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.replica("pilot-a", func(o *discovery.Options) { o.Registry.IngressNamespace, o.MeshConfigFile = l.shop, file })
	node := func(name, addresses string) {
		l.Helper()
		if _, err := l.client.Kubernetes.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.patchStatus("nodes", "", name, `{"status": {"addresses": [`+addresses+`]}}`)
	}
	node("edge-"+l.shop, `{"type": "ExternalIP", "address": "192.0.2.7"}, {"type": "InternalIP", "address": "10.0.0.7"}`)
	node("other-"+l.shop, `{"type": "ExternalIP", "address": "192.0.2.8"}`)
	ours := l.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: ours, annotations: {kubernetes.io/ingress.class: istio}}
spec: {rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`)
	gateway := func(name, node string) {
		l.Helper()
		l.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {istio: ingressgateway}}
spec: {nodeName: %s, containers: [{name: proxy, image: proxy}]}
`, name, node))
		l.patchStatus("pods", l.shop, name, `{"status": {"phase": "Running"}}`)
	}
	found := func(want string) {
		l.Helper()
		l.eventually("addresses of the Ingress", func() error {
			list, _, _ := unstructured.NestedSlice(l.get(ours).Object, "status", "loadBalancer", "ingress")
			if got := fmt.Sprint(list); got != want {
				return fmt.Errorf("there are %s, want %s", got, want)
			}
			return nil
		})
	}
	gateway("gateway-1", "edge-"+l.shop)
	found("[map[ip:192.0.2.7]]")
	gateway("gateway-2", "other-"+l.shop)
	found("[map[ip:192.0.2.7] map[ip:192.0.2.8]]")
	l.patchStatus("pods", l.shop, "gateway-1", `{"status": {"phase": "Succeeded"}}`)
	found("[map[ip:192.0.2.8]]")
}

// patchStatus changes the status of an object of the core API.
func (l *lab) patchStatus(plural, namespace, name, patch string) {
	l.Helper()
	kind := schema.GroupVersionResource{Version: "v1", Resource: plural}
	var of dynamic.ResourceInterface = l.client.Dynamic.Resource(kind)
	if namespace != "" {
		of = l.client.Dynamic.Resource(kind).Namespace(namespace)
	}
	if _, err := of.Patch(l.Context(), name, merge, []byte(patch), patchOptions, "status"); err != nil {
		l.Fatal(err)
	}
}
