package tenants

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// proxies are the proxies of bank: two sidecars, one with the DNS proxy, and a gateway.
var proxies = []string{
	"{name: vault-1, namespace: bank, addresses: [10.0.0.1], identity: true, account: vault, labels: {app: vault, version: v1}}",
	"{name: api-1, namespace: bank, addresses: [10.0.0.2], identity: true, account: api, labels: {app: api, version: v2}, dnsCapture: true, dnsAutoAllocate: true}",
	"{type: router, name: edge-1, namespace: bank, addresses: [10.0.0.3], identity: true, account: edge, labels: {app: edge, istio: ingressgateway}}",
}

// foreign is a gateway of evil.
const foreign = "{type: router, name: edge-1, namespace: evil, addresses: [10.6.6.7], identity: true, account: edge, labels: {app: edge, istio: ingressgateway}}"

// secretNames are all names of the Secrets of both namespaces.
func secretNames() []string {
	names := []string{"default", "ROOTCA", "configmap://bank/cert", "configmap://evil/cert"}
	for _, n := range []string{"cert", "other", "bank/cert", "bank/other", "evil/cert", "evil/other", "istio-system/cert", "../evil/cert", "../bank/cert"} {
		names = append(names, "kubernetes://"+n, "kubernetes://"+n+"-cacert", "kubernetes-gateway://"+n, n)
	}
	return names
}

// strict are settings with which a namespace's objects are not exported by default.
const strict = `{defaultServiceExportTo: ["."], defaultVirtualServiceExportTo: ["."], defaultDestinationRuleExportTo: ["."]}`

// world is a mesh of objects.
type world struct {
	t    *testing.T
	mesh *fixture.Mesh
}

func newWorld(t *testing.T, settings string, objects ...[]*config.Config) *world {
	t.Helper()
	m := fixture.NewWith(t, snapshot.Features{ScopeGateways: settings == strict}, nil, []byte(settings))
	m.Send(fixture.Events(mesh.Upsert, slices.Concat(objects...)...)...)
	return &world{t: t, mesh: m}
}

// resources returns all resources of a proxy, by type and name: wildcard types, the resources that
// they refer to, secrets by any name, and name tables.
func (w *world) resources(proxy string) map[string][]byte {
	w.t.Helper()
	table := translate.NewTable(translate.Options{})
	v := w.mesh.View(fixture.Proxy(w.t, []byte(proxy)))
	out := map[string][]byte{}
	for _, r := range xdsdump.AllResources(w.t, table, v) {
		out[r.TypeURL+" "+r.Name] = r.Body
	}
	for _, g := range table.Generators {
		if g.All != nil {
			for _, r := range g.All(v) {
				out[g.TypeURL+" "+r.Name] = r.Body
			}
		}
		if g.TypeURL != api.SecretType || g.Named == nil {
			continue
		}
		for _, n := range secretNames() {
			if r := g.Named(v, n); r != nil {
				out[g.TypeURL+" "+n] = r.Body
			}
		}
	}
	return out
}

// changed returns the keys of the resources that differ.
func changed(before, after map[string][]byte) (list []string) {
	for key := range before {
		if !bytes.Equal(before[key], after[key]) {
			list = append(list, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			list = append(list, "+"+key)
		}
	}
	slices.Sort(list)
	return list
}

// holds reports whether a text is in any of the resources.
func holds(resources map[string][]byte, text []byte) bool {
	for _, body := range resources {
		if bytes.Contains(body, text) {
			return true
		}
	}
	return false
}

// listeners returns the number of listeners of a proxy.
func listeners(t *testing.T, resources map[string][]byte) (n int) {
	t.Helper()
	for key, body := range resources {
		if strings.HasPrefix(key, api.ListenerType+" ") {
			if err := proto.Unmarshal(body, new(listenerv3.Listener)); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	return n
}
