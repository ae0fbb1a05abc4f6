package registry

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Endpoints are made only of pods that are on a node.
const container = "nodeName: node, containers: [{name: app, image: app, ports: [{name: web, containerPort: 8080}]}]"

// endpointsAre wants a service to have these endpoints: "address:port health name".
func endpointsAre(k mesh.ServiceKey, want ...string) func(*snapshot.Snapshot) error {
	return func(s *snapshot.Snapshot) error {
		if s.Service(k) == nil {
			return fmt.Errorf("%s is not there", k.Host)
		}
		got := []string{}
		for _, e := range s.Endpoints(k).Endpoints {
			got = append(got, fmt.Sprintf("%s %s %s", e.HostPort(), e.Health, e.Hostname))
		}
		slices.Sort(got)
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			return fmt.Errorf("endpoints of %s: -want +got:\n%s", k.Host, diff)
		}
		return nil
	}
}

func there(k mesh.ServiceKey, want bool) func(*snapshot.Snapshot) error {
	return func(s *snapshot.Snapshot) error {
		if got := s.Service(k) != nil; got != want {
			return fmt.Errorf("%s exists: %t", k.Host, got)
		}
		return nil
	}
}

// exportAll makes cmp compare unexported fields.
var exportAll = cmp.Exporter(func(reflect.Type) bool { return true })

// TestEndpoints follows a Service's pods with Kubernetes' own controllers: they are added, become
// ready, are distinguished by a named port, get other labels, and are deleted.
func TestEndpoints(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "endpoints", nil)
	m := start(t, c)
	web, db := host("web", ns), host("db", ns)
	m.apply("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}]}}", ns)
	m.apply("{apiVersion: v1, kind: Service, metadata: {name: db, namespace: %s}, spec: {clusterIP: None, selector: {app: db}, ports: [{name: tcp, port: 5432}]}}", ns)
	m.eventually("a Service without pods", endpointsAre(web))
	m.pod(ns, "web-1", "app: web", container, "10.1.0.1", "True")
	m.pod(ns, "web-2", "app: web", container, "10.1.0.2", "False")
	m.pod(ns, "db-0", "app: db", "hostname: db-0, subdomain: db, "+container, "10.1.0.3", "True")
	m.eventually("two pods, one of them not ready", endpointsAre(web, "10.1.0.1:8080  ", "10.1.0.2:8080 UNHEALTHY "))
	m.eventually("a headless Service's pod", endpointsAre(db, "10.1.0.3:5432  db-0"))
	m.podIs(ns, "web-2", "10.1.0.2", "True")
	m.eventually("both are ready", endpointsAre(web, "10.1.0.1:8080  ", "10.1.0.2:8080  "))
	if _, err := c.Client(t).CoreV1().Pods(ns).Patch(t.Context(), "web-1", types.MergePatchType, []byte(`{"metadata": {"labels": {"app": "other"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("one has another label", endpointsAre(web, "10.1.0.2:8080  "))
	m.apply("{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: vm, namespace: %s, labels: {app: web}}, spec: {address: 192.0.2.1, ports: {web: 7070}}}", ns)
	m.eventually("a WorkloadEntry", endpointsAre(web, "10.1.0.2:8080  ", "192.0.2.1:7070  "))
	m.apply("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: both, namespace: %s}, spec: {hosts: [both.example.com], resolution: STATIC, location: MESH_INTERNAL, "+
		"ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {app: web}}}}", ns)
	m.eventually("a ServiceEntry that selects both", endpointsAre(mesh.ServiceKey{Namespace: ns, Host: "both.example.com"}, "10.1.0.2:80  ", "192.0.2.1:80  "))
	now := int64(0)
	if err := c.Client(t).CoreV1().Pods(ns).Delete(t.Context(), "web-2", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the last pod is deleted", endpointsAre(web, "192.0.2.1:7070  "))
	if err := c.Client(t).CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the Service is deleted", there(web, false))
	// The pod's deletion may arrive after that of its endpoint in the slice.
	m.eventually("the ServiceEntry has no pod", endpointsAre(mesh.ServiceKey{Namespace: ns, Host: "both.example.com"}, "192.0.2.1:80  "))

	again := start(t, c)
	again.eventually("another control plane sees the same", func(s *snapshot.Snapshot) error {
		for _, k := range []mesh.ServiceKey{db, {Namespace: ns, Host: "both.example.com"}} {
			a, b := m.last.Endpoints(k), s.Endpoints(k)
			if !slices.EqualFunc(a.Endpoints, b.Endpoints, (*mesh.Endpoint).Equal) {
				return fmt.Errorf("%s has other endpoints: %s", k.Host, cmp.Diff(a, b, exportAll))
			}
			if a, b := m.last.Service(k), s.Service(k); b == nil || a.Hash != b.Hash {
				return fmt.Errorf("%s is another: %s", k.Host, cmp.Diff(a, b, exportAll))
			}
		}
		return nil
	})
}

// TestDiscoverySelectors: the visible objects follow selectors and labels of namespaces, although
// the API server sends no events about the objects themselves.
func TestDiscoverySelectors(t *testing.T) {
	c := shared.Start(t)
	blue, red := c.Namespace(t, "blue", map[string]string{"team": "blue"}), c.Namespace(t, "red", map[string]string{"team": "red"})
	m := start(t, c)
	for i, ns := range []string{blue, red} {
		m.apply("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}]}}", ns)
		m.pod(ns, "web-1", "app: web", container, fmt.Sprintf("10.2.0.%d", i+1), "True")
	}
	inBlue, inRed := host("web", blue), host("web", red)
	m.eventually("all are seen", endpointsAre(inBlue, "10.2.0.1:8080  "))
	m.eventually("all are seen", endpointsAre(inRed, "10.2.0.2:8080  "))
	m.choose("discoverySelectors: [{matchLabels: {team: blue}}]")
	m.eventually("red is hidden", there(inRed, false))
	m.eventually("blue is not", endpointsAre(inBlue, "10.2.0.1:8080  "))
	m.podIs(red, "web-1", "10.2.0.3", "True")
	m.choose("discoverySelectors: [{matchLabels: {team: red}}]")
	m.eventually("red is seen, as it is now", endpointsAre(inRed, "10.2.0.3:8080  "))
	m.eventually("blue is hidden", there(inBlue, false))
	label := func(ns, team string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata": {"labels": {"team": %q}}}`, team)
		if _, err := c.Client(t).CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(blue, "red")
	m.eventually("blue becomes red", endpointsAre(inBlue, "10.2.0.1:8080  "))
	label(red, "blue")
	m.eventually("and red blue", there(inRed, false))
	m.choose("{}")
	m.eventually("all are seen again", endpointsAre(inRed, "10.2.0.3:8080  "))
}

// TestNodesAndIngress checks a gateway that is reached through nodes, and the conversion of an
// Ingress whose class is created later.
func TestNodesAndIngress(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "edge", nil)
	m := start(t, c)
	m.apply(`
apiVersion: v1
kind: Service
metadata: {name: gateway, namespace: %s, labels: {topology.istio.io/network: far}, annotations: {traffic.istio.io/nodeSelector: '{"edge": "%s"}'}}
spec: {type: NodePort, ports: [{name: tls, port: 15443, nodePort: 31443}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: %s}
spec:
  ingressClassName: %s
  rules: [{host: %s.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}]`, ns, ns, ns, ns, ns)
	t.Cleanup(func() { // its port is one of the whole cluster
		if err := c.Client(t).CoreV1().Services(ns).Delete(context.Background(), "gateway", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	m.eventually("no gateway", func(s *snapshot.Snapshot) error {
		if s.Service(host("gateway", ns)) == nil || len(s.Networks().All()) != 0 {
			return fmt.Errorf("gateways %v", s.Networks().All())
		}
		return nil
	})
	m.apply("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {edge: %s}}}", ns, ns)
	nodes := c.Client(t).CoreV1().Nodes()
	if _, err := nodes.Patch(t.Context(), ns, types.MergePatchType, []byte(`{"status": {"addresses": [{"type": "ExternalIP", "address": "203.0.113.7"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	m.eventually("the node's address", func(s *snapshot.Snapshot) error {
		want := []mesh.NetworkGateway{{Network: "far", Cluster: "c1", Address: "203.0.113.7", Port: 31443}}
		if diff := cmp.Diff(want, s.Networks().All()); diff != "" {
			return fmt.Errorf("gateways: -want +got:\n%s", diff)
		}
		return nil
	})
	if err := nodes.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the node is deleted", func(s *snapshot.Snapshot) error {
		if g := s.Networks().All(); len(g) != 0 {
			return fmt.Errorf("gateways %v", g)
		}
		return nil
	})

	rule := config.Key{Kind: api.VirtualService, Namespace: ns, Name: ns + "-example-com-web-istio-autogenerated-k8s-ingress"}
	made := func(want bool) func(*snapshot.Snapshot) error {
		return func(s *snapshot.Snapshot) error {
			if got := s.Config(rule) != nil; got != want {
				return fmt.Errorf("%s exists: %t", rule, got)
			}
			return nil
		}
	}
	m.apply("{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: %s}, spec: {controller: istio.io/ingress-controller}}", ns)
	m.apply("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {ports: [{name: http, port: 80}]}}", ns)
	m.eventually("an Ingress with class and Service", made(true))
	if err := c.Client(t).NetworkingV1().IngressClasses().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the class is deleted", made(false))
}
