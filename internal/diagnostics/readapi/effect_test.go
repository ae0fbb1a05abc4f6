package readapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/ingest/static"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

const effectMesh = `
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: reviews}, ports: [{name: http, port: 9080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: reviews-v1, namespace: shop, labels: {app: reviews}}
status: {phase: Running, podIP: 10.1.0.1}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews.shop.svc.cluster.local], http: [{name: all, route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: other, namespace: bank}
spec: {hosts: [reviews.shop.svc.cluster.local], http: [{route: [{destination: {host: reviews.shop.svc.cluster.local}}]}]}
`

// newEffectAPI returns the API of effectMesh with a proxy in each of two namespaces, of which the one
// in shop has not acknowledged its routes.
func newEffectAPI(t *testing.T) *API {
	t.Helper()
	m := static.New(static.Options{})
	for _, d := range decode.Manifest("mesh.yaml", []byte(effectMesh)) {
		if d.Config == nil {
			t.Fatal(d.Problems)
		}
		m.Apply(mesh.Event{Config: d.Config})
	}
	proxy := func(namespace string) *mesh.Proxy {
		return &mesh.Proxy{
			ID: "web~" + namespace, Type: mesh.SidecarProxy, Name: "web", Namespace: namespace,
			DNSDomain: namespace + ".svc.cluster.local", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.9")},
		}
	}
	route := resource.FromBytes("9080", api.RouteType, nil)
	a := newAPI(t)
	a.Snapshot = m.Snapshot
	a.Connections = func() []push.Connection {
		return []push.Connection{{ID: "bank-1", Proxy: proxy("bank")}, {ID: "shop-2", Proxy: proxy("shop")}, {ID: "shop-3", Proxy: proxy("shop")}}
	}
	a.Uses = func(k config.Key) []push.ObjectUse {
		if k.Kind != api.VirtualService || k.Name != "reviews" {
			return nil
		}
		return []push.ObjectUse{
			{ID: "bank-1", Proxy: proxy("bank"), Resources: []*resource.Resource{route}},
			{
				ID: "shop-2", Proxy: proxy("shop"), Resources: []*resource.Resource{route},
				Behind: []push.ResourceBehind{{TypeURL: api.RouteType, Name: "9080", State: stream.Rejected}},
			},
		}
	}
	a.Problems = func() []config.Problem {
		return []config.Problem{
			{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "reviews"}, Reason: "found by the analysis"},
			{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "else"}, Reason: "of another one"},
		}
	}
	return a
}

// effect returns the answer for an object of namespace shop.
func effect(t *testing.T, a *API, caller, object string) ObjectEffect {
	t.Helper()
	w := get(a, caller, "/objects/"+object+"/effect?namespace=shop")
	var x ObjectEffect
	if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", object, w.Code, w.Body)
	}
	return x
}

func TestEffect(t *testing.T) {
	a := newEffectAPI(t)
	x := effect(t, a, "", "VirtualService/reviews")
	if !x.Present || !x.Kept || x.Connected != 3 || x.Proxies != 2 || x.UpToDate != 1 {
		t.Errorf("the numbers are wrong: %+v", x)
	}
	if want := []UsedResource{{"RDS", "9080", 2}}; !slices.Equal(x.Resources, want) {
		t.Errorf("the resources are %v, want %v", x.Resources, want)
	}
	if want := []ObjectUse{
		{Proxy: "web.bank", Resources: 1, Replica: "istiod-1"},
		{Proxy: "web.shop", Resources: 1, Behind: "RDS 9080 rejected", Rejected: true, Replica: "istiod-1"},
	}; !slices.Equal(x.Uses, want) {
		t.Errorf("the proxies are %v, want %v", x.Uses, want)
	}
	if want := []string{"hosts: reviews.shop.svc.cluster.local", "http: all"}; !slices.Equal(x.Settings, want) {
		t.Errorf("the settings are %q, want %q", x.Settings, want)
	}
	if len(x.Problems) != 1 || x.Problems[0].Reason != "found by the analysis" {
		t.Errorf("the problems are %v", x.Problems)
	}
	if len(x.Relations) != 1 || x.Relations[0].Name != "other" || x.Relations[0].Effect != "is overridden by" {
		t.Errorf("the relations are %v", x.Relations)
	}
}

// TestEffectOfMadeObjects requests objects of which only the converted objects are stored.
func TestEffectOfMadeObjects(t *testing.T) {
	a := newEffectAPI(t)
	for object, want := range map[string]string{
		"Service/reviews": "host: reviews.shop.svc.cluster.local; ports: 9080 (http); endpoints: 1",
		"Pod/reviews-v1":  "endpoint: 10.1.0.1:9080 of reviews.shop.svc.cluster.local, port http, HEALTHY",
	} {
		if x := effect(t, a, "", object); x.Kept || !x.Present || !slices.Equal(x.Settings, []string{want}) {
			t.Errorf("%s: present %t, kept %t, settings %q, want %q", object, x.Present, x.Kept, x.Settings, want)
		}
	}
	if x := effect(t, a, "", "Pod/absent"); x.Present {
		t.Errorf("a pod that does not exist: %+v", x)
	}
}

// TestEffectForOwners requests an effect as an identity of the object's namespace: names of other
// namespaces are left out, and the numbers are complete.
func TestEffectForOwners(t *testing.T) {
	a := newEffectAPI(t)
	x := effect(t, a, "shop", "VirtualService/reviews")
	if x.Proxies != 2 || len(x.Uses) != 1 || x.Uses[0].Proxy != "web.shop" {
		t.Errorf("the proxies are %d, %v", x.Proxies, x.Uses)
	}
	if len(x.Relations) != 1 || x.Relations[0].Name != "(of another namespace)" || x.Relations[0].Namespace != "" {
		t.Errorf("the relations are %v", x.Relations)
	}
	for _, path := range []string{"VirtualService/other/effect?namespace=bank", "Secret/key/effect?namespace=bank"} {
		if w := get(a, "shop", "/objects/"+path); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestEffectsAreMerged adds the effect at another replica.
func TestEffectsAreMerged(t *testing.T) {
	x := effect(t, newEffectAPI(t), "", "VirtualService/reviews")
	other := effect(t, newEffectAPI(t), "", "VirtualService/reviews")
	other.Problems = append(other.Problems, debug.Problem{Reason: "only there"})
	x.Merge(other)
	if x.Connected != 6 || x.Proxies != 4 || x.UpToDate != 2 || len(x.Uses) != 4 || len(x.Problems) != 2 || len(x.Relations) != 1 ||
		len(x.Resources) != 1 || x.Resources[0].Proxies != 4 {
		t.Errorf("the sum is %+v", x)
	}
}

// TestEveryKindHasAPurpose requires a purpose of each kind that the control plane reads.
func TestEveryKindHasAPurpose(t *testing.T) {
	a := newEffectAPI(t)
	for _, k := range api.Kinds() {
		path := "/objects/" + string(k.Kind) + "/x/effect?namespace=shop"
		if k.ClusterScoped {
			path = "/objects/" + string(k.Kind) + "/x/effect"
		}
		w := get(a, "", path)
		var x ObjectEffect
		if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil || w.Code != http.StatusOK || x.Purpose == "" || x.Present {
			t.Errorf("%s: %d %s", k.Kind, w.Code, w.Body)
		}
	}
}

// TestRelationsAreLimited requests an object that competes with very many others.
func TestRelationsAreLimited(t *testing.T) {
	a := newEffectAPI(t)
	m := static.New(static.Options{})
	for i := range 2 * maxRelations {
		text := strings.Replace(virtualService("shop", fmt.Sprint("vs-", i)), "a.example.com", "web.example.com", 1)
		for _, d := range decode.Manifest("mesh.yaml", []byte(text)) {
			m.Apply(mesh.Event{Config: d.Config})
		}
	}
	a.Snapshot = m.Snapshot
	if x := effect(t, a, "", "VirtualService/vs-0"); len(x.Relations) != maxRelations {
		t.Errorf("%d relations, want %d", len(x.Relations), maxRelations)
	}
}
