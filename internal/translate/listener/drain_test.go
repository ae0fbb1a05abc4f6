package listener

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// beforeDrain is a mesh before the change.
const beforeDrain = `
{kind: Service, metadata: {name: own}, spec: {clusterIP: 10.96.0.1, selector: {app: own}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 81, targetPort: 8081}]}}
---
{kind: Pod, metadata: {name: client, labels: {app: own}}, status: {podIP: 10.9.9.9, phase: Running}}
---
{kind: ServiceEntry, metadata: {name: a}, spec: {hosts: [a.example.com], resolution: DNS, ports: [{name: tls, number: 443, protocol: TLS}]}}
---
{kind: ServiceEntry, metadata: {name: vip}, spec: {hosts: [vip.example.com], addresses: [192.0.2.1], resolution: STATIC, ports: [{name: tcp, number: 5432, protocol: TCP}]}}
`

// TestChangesStayInChains: a difference outside of a listener's filter chains drains all of its
// connections, including long TCP streams. So changes of services and rules must stay inside the
// filter chains where possible.
func TestChangesStayInChains(t *testing.T) {
	for _, tc := range []struct {
		what, edit, listener string
		whole                bool // the whole listener has to be drained
	}{
		{"an own port for HTTP", `{kind: Service, metadata: {name: more}, spec: {selector: {app: own}, clusterIP: 10.96.0.2, ports: [{name: http, port: 80, targetPort: 9090}]}}`, virtualInbound, false},
		{"an own port that is not declared", `{kind: Service, metadata: {name: more}, spec: {selector: {app: own}, clusterIP: 10.96.0.2, ports: [{name: any, port: 80, targetPort: 9090}]}}`, virtualInbound, false},
		{"a port of its own for TCP, without HTTP detection", `{kind: Service, metadata: {name: more}, spec: {selector: {app: own}, clusterIP: 10.96.0.2, ports: [{name: tcp, port: 80, targetPort: 9090}]}}`, virtualInbound, true},
		{"another server name", `{kind: ServiceEntry, metadata: {name: b}, spec: {hosts: [b.example.com], resolution: DNS, ports: [{name: tls, number: 443, protocol: TLS}]}}`, "0.0.0.0_443", false},
		{"a range of addresses", `{kind: ServiceEntry, metadata: {name: b}, spec: {hosts: [b.example.com], addresses: [192.0.2.0/24], resolution: NONE, ports: [{name: tcp, number: 443, protocol: TCP}]}}`, "0.0.0.0_443", false},
		{"a route for connections", `{kind: VirtualService, metadata: {name: b}, spec: {hosts: [vip.example.com], tcp: [{route: [{destination: {host: a.example.com}}]}]}}`, "192.0.2.1_5432", false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := fixture.New(t, []byte(beforeDrain), nil)
			g := NewGenerator()
			get := func() *listenerv3.Listener {
				return golden.Decode(t, named(g.All(m.View(fixture.Proxy(t, nil))), tc.listener)[0]).(*listenerv3.Listener)
			}
			was := get()
			m.Apply(t, tc.edit)
			is := get()
			if proto.Equal(was, is) {
				t.Fatal("nothing changed")
			}
			for _, l := range []*listenerv3.Listener{was, is} {
				l.FilterChains, l.DefaultFilterChain = nil, nil
			}
			if proto.Equal(was, is) == tc.whole {
				t.Errorf("outside of the chains: was\n%v\nis\n%v", was, is)
			}
		})
	}
}

// TestRoutesOfConnectionsDoNotChangeListeners: a VirtualService's TCP route is edited, and only the
// extension differs.
func TestRoutesOfConnectionsDoNotChangeListeners(t *testing.T) {
	route := func(host string) string {
		return `{kind: VirtualService, metadata: {name: b}, spec: {hosts: [vip.example.com], tcp: [{route: [{destination: {host: ` + host + `}}]}]}}`
	}
	m := fixture.New(t, []byte(beforeDrain), nil)
	g := NewGenerator()
	m.Apply(t, route("a.example.com"))
	was := m.View(fixture.Proxy(t, nil))
	m.Apply(t, route("vip.example.com"))
	is := m.View(fixture.Proxy(t, nil))
	if version(t, g.All(was)) != version(t, g.All(is)) {
		t.Error("the edit of a route changed a listener")
	}
	const name = "192.0.2.1_5432_tcp"
	if a, b := g.Extension(was, name), g.Extension(is, name); a == nil || b == nil || a.Version == b.Version {
		t.Errorf("extension %s was %v, is %v", name, a, b)
	}
}
