package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// step is one change, and all resources that a sidecar is sent for it.
type step struct {
	name   string
	change func()
	until  func() error
	sent   []string
}

// rest is the time without responses after which a newly connected sidecar has everything.
const rest = 500 * time.Millisecond

// follow makes the changes one after the other, and checks the responses to each. Late responses
// are attributed to the next change.
func (p *controlPlane) follow(x *sidecar.Proxy, steps []step) {
	p.Helper()
	last := time.Now()
	p.Eventually("no further response arrives", func() error {
		if len(x.SentResources()) > 0 {
			last = time.Now()
		}
		if quiet := time.Since(last); quiet < rest {
			return fmt.Errorf("quiet for %v", quiet)
		}
		return nil
	})
	for _, s := range steps {
		s.change()
		var sent []string
		p.Eventually(s.name, func() error {
			sent = append(sent, x.SentResources()...)
			slices.Sort(sent)
			sent = slices.Compact(sent)
			if diff := cmp.Diff(s.sent, sent); diff != "" {
				return fmt.Errorf("sent (-want +got):\n%s", diff)
			}
			return s.until()
		})
	}
}

func (p *controlPlane) apply1(manifests string) func() {
	return func() { p.Helper(); p.apply(manifests) }
}

const reviewsService = `{apiVersion: v1, kind: Service, metadata: {name: reviews, namespace: $NS, annotations: {note: "%s"}},
  spec: {selector: {app: reviews}, ports: [{name: http, port: 80, targetPort: %s}]}}`

// slice is an EndpointSlice of a service without a selector.
func slice(name, service, port string, addresses ...string) string {
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: $NS, labels: {kubernetes.io/service-name: %s}}, addressType: IPv4,
  ports: [{name: http, port: %s}], endpoints: [{addresses: [%s], conditions: {ready: true}}]}`, name, service, port, strings.Join(addresses, "], conditions: {ready: true}}, {addresses: ["))
}

// TestChangesOnTheWire makes the changes that users make and checks that a sidecar is sent exactly
// the affected resources: only endpoints when pods are added or deleted, and nothing when an object
// is written again unchanged.
func TestChangesOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	p.apply(`{apiVersion: v1, kind: Node, metadata: {name: node-$NS, labels: {topology.kubernetes.io/region: eu, topology.kubernetes.io/zone: eu-1, topology.istio.io/subzone: rack}}}`)
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: manual, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
	p.apply(slice("manual-1", "manual", "8080", "10.3.0.1"))
	x := p.connect("client", p.namespace, "10.9.0.1")
	p.Eventually("a service without a selector", addresses(x, p.outbound(80, "manual"), "10.3.0.1"))
	p.Eventually("its route", leads(x, "80", p.outbound(80, "manual")))

	pod := func(name, ip, ready string) {
		t.Helper()
		p.pod(name, "app: reviews, version: v1, security.istio.io/tlsMode: istio", ip, ready)
	}
	reviews, manual := p.outbound(80, "reviews"), p.outbound(80, "manual")
	scale := func(port string, addresses ...string) func() {
		return p.apply1(slice("manual-1", "manual", port, addresses...))
	}
	p.follow(x, []step{
		{"a Service", p.apply1(fmt.Sprintf(reviewsService, "", "8080")), all(has(x, api.ClusterType, reviews, true), has(x, api.EndpointType, reviews, true)),
			[]string{"CDS " + reviews, "EDS " + reviews, "RDS 80"}},
		{"its first pod", func() { pod("reviews-1", "10.3.1.1", "True") }, addresses(x, reviews, "10.3.1.1"), []string{"CDS " + reviews, "EDS " + reviews}},
		{"scaled out", func() { pod("reviews-2", "10.3.1.2", "True") }, addresses(x, reviews, "10.3.1.1", "10.3.1.2"), []string{"EDS " + reviews}},
		{"a pod gets unready", func() { p.podIs("reviews-2", "10.3.1.2", "False") }, healths(x, reviews, "UNHEALTHY", "UNKNOWN"), []string{"EDS " + reviews}},
		{"scaled in", func() { p.remove("reviews-2") }, addresses(x, reviews, "10.3.1.1"), []string{"EDS " + reviews}},
		{"another target port", p.apply1(fmt.Sprintf(reviewsService, "", "9090")), ports(x, reviews, 9090), []string{"EDS " + reviews}},
		{"a Service written again, and a change behind it", func() {
			p.apply(fmt.Sprintf(reviewsService, "again", "9090"))
			p.apply(`{apiVersion: v1, kind: Service, metadata: {name: later, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
		}, all(has(x, api.ClusterType, p.outbound(80, "later"), true), has(x, api.EndpointType, p.outbound(80, "later"), true)),
			[]string{"CDS " + p.outbound(80, "later"), "EDS " + p.outbound(80, "later"), "RDS 80"}},
		{"a slice written again, and a change behind it", func() {
			p.annotate("manual-1")
			p.apply(slice("later-1", "later", "8080", "10.3.2.1"))
		}, addresses(x, p.outbound(80, "later"), "10.3.2.1"), []string{"EDS " + p.outbound(80, "later")}},
		{"a node without a gateway, and a later change", func() {
			p.apply(`{apiVersion: v1, kind: Node, metadata: {name: node-$NS, labels: {topology.kubernetes.io/region: eu, topology.kubernetes.io/zone: eu-1, topology.istio.io/subzone: rack, heart: beat}}}`)
			p.apply(slice("later-1", "later", "8080", "10.3.2.2"))
		}, addresses(x, p.outbound(80, "later"), "10.3.2.2"), []string{"EDS " + p.outbound(80, "later")}},
		{"only a port of a slice", scale("8081", "10.3.0.1"), ports(x, manual, 8081), []string{"EDS " + manual}},
		{"a second slice", p.apply1(slice("manual-2", "manual", "8081", "10.3.0.2", "10.3.0.3")), addresses(x, manual, "10.3.0.1", "10.3.0.2", "10.3.0.3"), []string{"EDS " + manual}},
		{"one of two slices is deleted", func() { p.removeSlice("manual-1") }, addresses(x, manual, "10.3.0.2", "10.3.0.3"), []string{"EDS " + manual}},
		{"a slice of no service, and a change behind it", func() {
			p.apply(strings.Replace(slice("orphan", "x", "1", "10.3.0.9"), "labels: {kubernetes.io/service-name: x}", "labels: {a: b}", 1))
			p.apply(slice("manual-2", "manual", "8081", "10.3.0.2"))
		}, addresses(x, manual, "10.3.0.2"), []string{"EDS " + manual}},
		{"a slice before its Service, and a change behind it", func() {
			p.apply(slice("unborn-1", "unborn", "8080", "10.3.4.1"))
			p.apply(slice("manual-2", "manual", "8081", "10.3.0.3"))
		}, addresses(x, manual, "10.3.0.3"), []string{"EDS " + manual}},
		{"the Service of that slice", p.apply1(`{apiVersion: v1, kind: Service, metadata: {name: unborn, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`),
			addresses(x, p.outbound(80, "unborn"), "10.3.4.1"), []string{"CDS " + p.outbound(80, "unborn"), "EDS " + p.outbound(80, "unborn"), "RDS 80"}},
		// A sidecar may request the endpoints of a new cluster twice, and is sent them twice,
		// before this change.
		{"endpoints of that Service", p.apply1(slice("unborn-1", "unborn", "8080", "10.3.4.2")), addresses(x, p.outbound(80, "unborn"), "10.3.4.2"),
			[]string{"EDS " + p.outbound(80, "unborn")}},
		{"a Service is deleted", func() { p.removeService("unborn") }, has(x, api.ClusterType, p.outbound(80, "unborn"), false),
			[]string{"CDS -" + p.outbound(80, "unborn"), "RDS 80"}},
	})
	p.Eventually("what an endpoint is", p.endpointIs(x, reviews))
	p.Eventually("debug pages", all(
		p.page("/debug/registryz", `"reviews.`+p.namespace+`.svc.cluster.local"`),
		p.page("/debug/endpointShardz", "Kubernetes/Kubernetes", "reviews."+p.namespace),
	))
	p.Eventually("no shard of a Service that went", func() error {
		if page, err := p.GetPage("/debug/endpointShardz"); err != nil || strings.Contains(page, "unborn") {
			return fmt.Errorf("%w\n%s", err, page)
		}
		return nil
	})
	p.Eventually("metrics", p.page("/metrics", `pilot_push_triggers{type="service"}`, `pilot_push_triggers{type="endpoint"}`,
		`pilot_k8s_reg_events{event="add",type="Services"}`, `pilot_k8s_reg_events{event="update",type="EndpointSlice"}`, "pilot_k8s_endpoints_pending_pod 0"))
	p.Eventually("the size of requests", func() error {
		page, err := p.GetPage("/metrics")
		if err == nil && (!strings.Contains(page, "\npilot_xds_recv_max ") || strings.Contains(page, "\npilot_xds_recv_max 0\n")) {
			err = errors.New("pilot_xds_recv_max has no value")
		}
		return err
	})
}

// endpointIs checks all properties of a pod's endpoint: its workload, its locality, its identity,
// and that it accepts mutual TLS.
func (p *controlPlane) endpointIs(x *sidecar.Proxy, cluster string) func() error {
	return func() error {
		a, c := new(endpointv3.ClusterLoadAssignment), new(clusterv3.Cluster)
		if !x.Read(api.EndpointType, cluster, a) || !x.Read(api.ClusterType, cluster, c) || len(a.Endpoints) != 1 || len(a.Endpoints[0].LbEndpoints) != 1 {
			return errors.New("there is not one endpoint")
		}
		l, e := a.Endpoints[0].Locality, a.Endpoints[0].LbEndpoints[0]
		if l.GetRegion() != "eu" || l.GetZone() != "eu-1" || l.GetSubZone() != "rack" {
			return fmt.Errorf("locality %v", l)
		}
		if got := e.Metadata.GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue(); got != "istio" {
			return fmt.Errorf("tlsMode %q", got)
		}
		if got := e.Metadata.GetFilterMetadata()["istio"].GetFields()["workload"].GetStringValue(); !strings.HasPrefix(got, "reviews-1;"+p.namespace+";") || !strings.HasSuffix(got, ";Kubernetes") {
			return fmt.Errorf("workload %q", got)
		}
		if san := "spiffe://cluster.local/ns/" + p.namespace + "/sa/" + account; !strings.Contains(c.String(), san) {
			return fmt.Errorf("the cluster wants another name than %s: %v", san, c.TransportSocketMatches)
		}
		return nil
	}
}

func healths(x *sidecar.Proxy, cluster string, want ...string) func() error {
	return func() error {
		var got []string
		for _, e := range x.Endpoints(cluster) {
			got = append(got, e.HealthStatus.String())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("health %v, want %v", got, want)
		}
		return nil
	}
}

func ports(x *sidecar.Proxy, cluster string, want uint32) func() error {
	return func() error {
		list := x.Endpoints(cluster)
		if len(list) == 0 {
			return errors.New("no endpoints")
		}
		for _, e := range list {
			if got := e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue(); got != want {
				return fmt.Errorf("port %d, want %d", got, want)
			}
		}
		return nil
	}
}

// account is the pods' own account: a namespace's default account exists only after a controller
// has seen the namespace.
const account = "of-pods"

// pod creates a pod on the test's node without a kubelet, and writes its status.
func (p *controlPlane) pod(name, labels, ip, ready string) {
	p.Helper()
	p.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + account + ", namespace: $NS}}")
	p.apply(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: $NS, labels: {%s}}, spec: {nodeName: node-$NS, serviceAccountName: %s, containers: [{name: app, image: app, ports: [{name: web, containerPort: 8080}]}]}}", name, labels, account))
	p.podIs(name, ip, ready)
}

func (p *controlPlane) podIs(name, ip, ready string) {
	p.Helper()
	status := fmt.Sprintf(`{"status": {"phase": "Running", "podIP": %q, "podIPs": [{"ip": %q}], "conditions": [{"type": "Ready", "status": %q}]}}`, ip, ip, ready)
	p.must(p.cluster.Client(p).CoreV1().Pods(p.namespace).Patch(p.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"))
}

func (p *controlPlane) label(pod, labels string) {
	p.Helper()
	p.must(p.cluster.Client(p).CoreV1().Pods(p.namespace).Patch(p.Context(), pod, types.MergePatchType, []byte(`{"metadata": {"labels": `+labels+`}}`), metav1.PatchOptions{}))
}

func (p *controlPlane) annotate(slice string) {
	p.Helper()
	p.must(p.cluster.Client(p).DiscoveryV1().EndpointSlices(p.namespace).Patch(p.Context(), slice, types.MergePatchType, []byte(`{"metadata": {"annotations": {"note": "again"}}}`), metav1.PatchOptions{}))
}

func (p *controlPlane) remove(pod string) {
	p.Helper()
	now := int64(0)
	p.must(nil, p.cluster.Client(p).CoreV1().Pods(p.namespace).Delete(p.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

func (p *controlPlane) removeSlice(name string) {
	p.Helper()
	p.must(nil, p.cluster.Client(p).DiscoveryV1().EndpointSlices(p.namespace).Delete(p.Context(), name, metav1.DeleteOptions{}))
}

func (p *controlPlane) removeService(name string) {
	p.Helper()
	p.must(nil, p.cluster.Client(p).CoreV1().Services(p.namespace).Delete(p.Context(), name, metav1.DeleteOptions{}))
}

func (p *controlPlane) must(_ any, err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}
