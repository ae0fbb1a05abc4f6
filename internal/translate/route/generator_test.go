package route

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

const twoServices = `
kind: Service
metadata: {name: reviews}
spec: {ports: [{name: http, port: 9080}]}
---
kind: Service
metadata: {name: ratings}
spec: {ports: [{name: http, port: 9080}]}
---
`

// virtualService writes a VirtualService that sends a service's requests to a subset.
func virtualService(host, subset string) string {
	return fmt.Sprintf(
		"kind: VirtualService\nmetadata: {name: %s}\nspec: {hosts: [%s], http: [{route: [{destination: {host: %s, subset: %s}}]}]}\n",
		host,
		host,
		host,
		subset,
	)
}

func TestOneEditTranslatesOneVirtualHost(t *testing.T) {
	w := newWorld(
		t,
		[]byte(twoServices+virtualService("reviews", "v1")+"---\n"+virtualService("ratings", "v1")),
		nil,
		nil,
	)
	g := NewGenerator()
	before := g.Named(w.view(), "9080")
	if g.Computed() != 2 {
		t.Fatalf("%d virtual hosts were made, want 2", g.Computed())
	}
	for range 3 {
		runtime.GC() // values from which a used RouteConfiguration was generated stay in the memo
	}
	w.apply(t, virtualService("reviews", "v2"))
	planned := g.names.Computed() + g.names.Hits()
	after := g.Named(w.view(), "9080")
	if n := g.names.Computed() + g.names.Hits() - planned; n != 1 {
		t.Errorf("%d virtual hosts were planned for the edit of one VirtualService, want 1", n)
	}
	if g.Computed() != 3 {
		t.Errorf("%d virtual hosts were built for the edit of one VirtualService, want 1", g.Computed()-2)
	}
	if bytes.Equal(before.Body, after.Body) || before.Version == after.Version {
		t.Error("the edit changed nothing")
	}
	if got := decoded(t, after).VirtualHosts[1].Routes[0].GetRoute().GetCluster(); got != "outbound|9080|v2|reviews.default.svc.cluster.local" {
		t.Errorf("requests are routed to %s", got)
	}
	runtime.KeepAlive(before)
}

func TestAlikeViewsShareOneTranslation(t *testing.T) {
	w := newWorld(t, []byte(twoServices+virtualService("reviews", "v1")), nil, nil)
	g := NewGenerator()
	first := g.Named(w.view(), "9080")
	s := w.builder.Current()
	for i := range 10 {
		p := w.proxy.proxy()
		p.Name, p.Locality = fmt.Sprintf("client-%d", i), mesh.Locality{Region: fmt.Sprint(i)}
		p.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 9, byte(i)})}
		if g.Named(view.Build(s, view.KeyFor(s, p)), "9080") != first {
			t.Fatal("a proxy of another place has a RouteConfiguration of its own")
		}
	}
	p := w.proxy.proxy()
	p.Namespace, p.DNSDomain = "other", "other.svc.cluster.local"
	made := g.Computed()
	g.Named(view.Build(s, view.KeyFor(s, p)), "9080")
	p.Namespace, p.DNSDomain = "third", "third.svc.cluster.local"
	if g.Named(view.Build(s, view.KeyFor(s, p)), "9080"); g.Computed() != made+2 {
		t.Errorf("two other namespaces made %d virtual hosts, want the 2 that they share", g.Computed()-made)
	}
}

func TestUnrelatedChangesKeepTheBytes(t *testing.T) {
	w := newWorld(t, []byte(twoServices), nil, nil)
	g := NewGenerator()
	before := g.Named(w.view(), "9080")
	w.apply(t, `
kind: DestinationRule
metadata: {name: reviews}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
kind: Service
metadata: {name: other}
spec: {ports: [{name: http, port: 9081}]}
`)
	after := g.Named(w.view(), "9080")
	if before.Version != after.Version || g.Computed() != 2 {
		t.Errorf("version %s became %s, %d virtual hosts were made", before.Version, after.Version, g.Computed())
	}
	if !slices.Equal(before.From, after.From) {
		t.Errorf("a rule that does not hash shaped the routes: %v", after.From)
	}
}

// TestAffected names which RouteConfigurations are made again after a change. That they are enough
// is shown by TestChangesAddUpToTheWhole of the room above.
func TestAffected(t *testing.T) {
	names := []string{"80", "9080", "http_proxy", "reviews.default.svc.cluster.local:9080"}
	tests := map[string]struct {
		edit string
		want []string
	}{
		"a rule that hashes": {
			"kind: DestinationRule\nmetadata: {name: a}\nspec: {host: reviews, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x}}}}",
			names,
		},
		"another rule": {
			"kind: DestinationRule\nmetadata: {name: a}\nspec: {host: reviews, subsets: [{name: v1}]}",
			nil,
		},
		"VirtualService": {virtualService("reviews", "v1"), names},
		"VirtualService of a host that is no service": {
			"kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a.com], http: [{route: [{destination: {host: reviews}}]}]}", []string{"80", "http_proxy"},
		},
		"VirtualService without HTTP routes": {
			"kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [reviews], tcp: [{route: [{destination: {host: reviews}}]}]}", nil,
		},
		"VirtualService of another service": {virtualService("ratings", "v1"), []string{"80", "9080", "http_proxy"}},
		"VirtualService of all services": {
			"kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: ['*.svc.cluster.local'], http: [{route: [{destination: {host: reviews}}]}]}", names,
		},
		"delegate of nobody": {
			"kind: VirtualService\nmetadata: {name: a}\nspec: {http: [{route: [{destination: {host: reviews}}]}]}",
			nil,
		},
		"another namespace's": {
			"kind: VirtualService\nmetadata: {name: a, namespace: x}\nspec: {hosts: [a.com], exportTo: [.], http: [{route: [{destination: {host: a.com}}]}]}", nil,
		},
		"service of a port": {
			"kind: ServiceEntry\nmetadata: {name: a}\nspec: {hosts: [a.com], ports: [{number: 80, name: http, protocol: HTTP}]}",
			[]string{"80", "http_proxy"},
		},
		"service without HTTP": {
			"kind: ServiceEntry\nmetadata: {name: a}\nspec: {hosts: [a.com], ports: [{number: 9080, name: tcp, protocol: TCP}]}",
			nil,
		},
		"alias": {
			"kind: Service\nmetadata: {name: a}\nspec: {type: ExternalName, externalName: reviews.default.svc.cluster.local}",
			names,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []byte(twoServices), nil, nil)
			old := w.view()
			d := w.apply(t, tt.edit)
			if d := cmp.Diff(
				tt.want,
				NewGenerator().Affected(old, w.view(), d, names),
				cmpopts.EquateEmpty(),
			); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestRoutersHaveNoRoutesYet(t *testing.T) {
	w := newWorld(t, []byte(twoServices), nil, nil)
	p, s := w.proxy.proxy(), w.builder.Current()
	p.Type = mesh.RouterProxy
	if r := NewGenerator().Named(view.Build(s, view.KeyFor(s, p)), "9080"); r != nil {
		t.Errorf("a gateway was sent %s", r.Name)
	}
}

// TestMemoChangesNothing makes random edits and compares the output of a long-lived Generator with
// that of a new one.
func TestMemoChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, []byte(twoServices), nil, nil)
		old := NewGenerator()
		for range rapid.IntRange(1, 10).Draw(rt, "edits") {
			w.apply(t, randomObject(rt))
			for _, name := range []string{"80", "9080", "http_proxy", "reviews.default.svc.cluster.local:9080"} {
				v := w.view()
				r, _ := parseName(name)
				got := old.Named(v, name)
				if got == nil {
					continue
				}
				want := NewGenerator().buildConfiguration(v, r)
				if !bytes.Equal(got.Body, want.Body) || !slices.Equal(got.From, want.From) {
					rt.Fatalf("%s differs from the output of a new Generator", name)
				}
				checkDomains(rt, decoded(t, want).VirtualHosts)
			}
		}
	})
}

// checkDomains fails the test if a domain occurs twice, which Envoy rejects.
func checkDomains[H interface {
	GetName() string
	GetDomains() []string
}](rt *rapid.T, hosts []H) {
	seen := map[string]string{}
	for _, h := range hosts {
		for _, d := range h.GetDomains() {
			if other, twice := seen[strings.ToLower(d)]; twice {
				rt.Fatalf("domain %q is in %q and %q", d, other, h.GetName())
			}
			seen[strings.ToLower(d)] = h.GetName()
		}
	}
}

func randomObject(rt *rapid.T) string {
	host := rapid.SampledFrom([]string{
		"reviews", "ratings", "reviews.default", "RATINGS.default.svc", "*.default.svc.cluster.local", "*", "example.com", "10.0.0.1",
		"reviews.default.svc.cluster.local.",
	})
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
	switch rapid.SampledFrom([]string{
		"VirtualService", "DestinationRule", "Service", "ServiceEntry",
	}).Draw(rt, "kind") {
	case "VirtualService":
		hosts := rapid.SliceOfNDistinct(host, 0, 3, rapid.ID).Draw(rt, "hosts")
		if len(hosts) == 0 {
			return fmt.Sprintf(
				"kind: VirtualService\nmetadata: {name: %s}\nspec: {http: [{match: [{uri: {prefix: /a}}], route: [{destination: {host: %s}}]}]}\n",
				name,
				name,
			)
		}
		return fmt.Sprintf(`
kind: VirtualService
metadata: {name: %s}
spec:
  hosts: ["%s"]
  http:
  - match: [{port: %d}]
    %s
`, name, strings.Join(hosts, `", "`), rapid.SampledFrom([]int{80, 9080}).Draw(rt, "port"),
			rapid.SampledFrom([]string{
				"delegate: {name: a}", "delegate: {name: b}",
				"route: [{destination: {host: reviews, subset: v1}}]",
				"route: [{destination: {host: a}}]",
			}).Draw(rt, "action"))
	case "DestinationRule":
		return fmt.Sprintf(`
kind: DestinationRule
metadata: {name: %s}
spec:
  host: "%s"
  trafficPolicy: {loadBalancer: {%s}}
`, name, host.Draw(rt, "host"), rapid.SampledFrom([]string{
			"simple: RANDOM", "consistentHash: {httpHeaderName: x}",
		}).Draw(rt, "policy"))
	case "Service":
		return fmt.Sprintf("kind: Service\nmetadata: {name: %s}\nspec: {%s}\n", name, rapid.SampledFrom([]string{
			"clusterIP: None, ports: [{name: http, port: 9080}]",
			"clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]",
			"type: ExternalName, externalName: reviews.default.svc.cluster.local",
			"type: ExternalName, externalName: a.default.svc.cluster.local",
			"type: ExternalName, externalName: b.default.svc.cluster.local",
		}).Draw(rt, "spec"))
	default:
		return fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: %s}\nspec: {hosts: [\"%s\"], addresses: [10.0.0.1], ports: [{number: 9080, protocol: HTTP, name: http}]}\n",
			name, strings.ToLower(host.Draw(rt, "host")))
	}
}

func TestManyAskAtOnce(t *testing.T) {
	w := newWorld(t, []byte(twoServices+virtualService("reviews", "v1")), nil, nil)
	g, v := NewGenerator(), w.view()
	names := []string{"80", "9080", "http_proxy", "reviews.default.svc.cluster.local:9080"}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if g.Named(v, names[i%len(names)]) == nil {
				t.Errorf("%s: nothing", names[i%len(names)])
			}
		})
	}
	wg.Wait()
	// reviews:9080 is there as a name, with a port, and for any host; its VirtualService alone on
	// 80, twice; ratings twice.
	if made := g.Computed(); made != 7 {
		t.Errorf("%d virtual hosts were made, want 7", made)
	}
}

// TestPins: mirrors are clusters that a proxy must have in advance, destinations are not.
func TestPins(t *testing.T) {
	w := newWorld(t, []byte(twoServices), nil, nil)
	g := NewGenerator()
	if pins := g.Named(w.view(), "9080").Pins(); len(pins) > 0 {
		t.Errorf("without mirrors: %q", pins)
	}
	w.apply(t, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}], mirror: {host: ratings}}]}
`)
	want := []string{"outbound|9080||ratings.default.svc.cluster.local"}
	if pins := g.Named(w.view(), "9080").Pins(); !slices.Equal(pins, want) {
		t.Errorf("with a mirror: %q, want %q", pins, want)
	}
}
