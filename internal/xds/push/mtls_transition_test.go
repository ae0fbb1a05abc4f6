package push_test

import (
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
)

const (
	permissive = security.PeerAuthentication_MutualTLS_PERMISSIVE
	strict     = security.PeerAuthentication_MutualTLS_STRICT
	disable    = security.PeerAuthentication_MutualTLS_DISABLE
)

// modes returns a generator of a listener that contains the mutual TLS modes that the proxy
// accepts.
func modes() view.Generator {
	return view.Generator{TypeURL: api.ListenerType, Inbound: true, All: func(v *view.View) []*resource.Resource {
		return []*resource.Resource{
			resource.FromBytes("virtualInbound", api.ListenerType, []byte(v.Key.PeerModes(v.Snapshot).Text())),
		}
	}}
}

// securely sets a proxy version that supports mutual TLS, and returns the proxy.
func securely(p *mesh.Proxy) *mesh.Proxy {
	p.Metadata.IstioVersion = "1.31.0"
	return p
}

// peers is a mesh of a server and a client.
type peers struct {
	*fixture
	server, client *proxy
}

func withPeers(t *testing.T, first security.PeerAuthentication_MutualTLS_Mode, test func(*peers)) {
	t.Helper()
	inBubble(t, 1, push.Options{Generators: []view.Generator{modes()}}, func(f *fixture) {
		f.mesh.SetPeers(first)
		f.mesh.SetMutualTLS("s0", pushtest.Proxy(0, "default").Addresses[0].String())
		f.settle()
		p := &peers{
			f,
			f.connect(securely(pushtest.Proxy(0, "default"))),
			f.connect(securely(pushtest.Proxy(1, "other"))),
		}
		p.wantServerMode(first)
		test(p)
	})
}

// wantServerMode fails the test unless the newest listener that the server was sent accepts this
// mode.
func (p *peers) wantServerMode(want security.PeerAuthentication_MutualTLS_Mode) {
	p.t.Helper()
	p.server.read()
	if got := p.server.has[api.ListenerType]["virtualInbound"]; got != want.String() {
		p.t.Errorf("after %s the server accepts %s, want %s", time.Since(p.began()), got, want)
	}
}

func (p *peers) began() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestServersAcceptBothModesWhileClientsChange(t *testing.T) {
	for _, c := range []struct {
		was, is security.PeerAuthentication_MutualTLS_Mode
	}{
		{disable, strict}, {strict, disable}, {permissive, disable},
	} {
		t.Run(c.was.String()+" to "+c.is.String(), func(t *testing.T) {
			withPeers(t, c.was, func(p *peers) {
				p.mesh.SetPeers(c.is)
				time.Sleep(100 * time.Millisecond)
				p.want(p.client.read()) // nothing before the server accepts both modes
				p.wantServerMode(permissive)
				time.Sleep(100 * time.Millisecond)
				p.want(p.client.read()) // nothing before the new listener is in use
				time.Sleep(200 * time.Millisecond)
				p.wantServerMode(permissive)
				p.want(p.client.read(), "EDS +1 -0")
				time.Sleep(300 * time.Millisecond)
				p.wantServerMode(permissive)
				time.Sleep(400 * time.Millisecond)
				p.wantServerMode(c.is)
				p.want(p.client.read())
			})
		})
	}
}

// TestServersAcceptMoreAtOnce: a change after which servers accept everything that they accepted
// before is made without a transition.
func TestServersAcceptMoreAtOnce(t *testing.T) {
	withPeers(t, strict, func(p *peers) {
		p.mesh.SetPeers(permissive)
		time.Sleep(50 * time.Millisecond)
		p.wantServerMode(permissive)
		p.want(p.client.read())
	})
	withPeers(t, disable, func(p *peers) {
		p.mesh.SetPeers(permissive)
		time.Sleep(100 * time.Millisecond)
		p.wantServerMode(permissive)
		p.want(p.client.read()) // servers first
		time.Sleep(300 * time.Millisecond)
		p.want(p.client.read(), "EDS +1 -0")
	})
}

// TestStrictDoesNotWaitForUpToDateClients: servers do not wait for clients that already use mutual
// TLS.
func TestStrictDoesNotWaitForUpToDateClients(t *testing.T) {
	withPeers(t, permissive, func(p *peers) {
		p.mesh.SetPeers(strict)
		time.Sleep(150 * time.Millisecond)
		// The ACK shows that the server is up to date. The new mode may be sent immediately
		// afterwards.
		p.server.read()
		time.Sleep(50 * time.Millisecond)
		p.wantServerMode(strict)
	})
}

func TestSilentCallersAreNotAwaitedForLong(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		p.mesh.SetPeers(strict)
		for range 25 {
			time.Sleep(100 * time.Millisecond)
			p.wantServerMode(permissive) // the client reads nothing
		}
		time.Sleep(2 * time.Second)
		p.wantServerMode(strict)
	})
}

func TestDisconnectedCallersAreNotAwaited(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		p.mesh.SetPeers(strict)
		for range 8 {
			time.Sleep(100 * time.Millisecond)
			p.wantServerMode(permissive)
		}
		p.client.c.Close()
		time.Sleep(200 * time.Millisecond)
		p.wantServerMode(strict)
	})
}

// TestPhasesLastFullTimeForOtherControlPlanes: if calls to proxies of other control planes change,
// each phase lasts for its maximum time.
func TestPhasesLastFullTimeForOtherControlPlanes(t *testing.T) {
	withPeers(t, strict, func(p *peers) {
		p.mesh.SetWorkload("elsewhere", "10.77.0.1")
		p.mesh.SetPeers(disable)
		time.Sleep(900 * time.Millisecond)
		p.wantServerMode(permissive)
		p.want(p.client.read()) // servers of other control planes may not accept both modes yet
		time.Sleep(200 * time.Millisecond)
		p.want(p.client.read(), "EDS +1 -0")
		time.Sleep(2800 * time.Millisecond)
		p.wantServerMode(permissive) // clients of other control planes may not have the change yet
		time.Sleep(300 * time.Millisecond)
		p.wantServerMode(disable)
		p.want(p.client.read())
	})
	// Calls do not change, so no phase waits.
	withPeers(t, permissive, func(p *peers) {
		p.mesh.SetWorkload("elsewhere", "10.77.0.1")
		p.settle()
		p.mesh.SetPeers(strict)
		time.Sleep(150 * time.Millisecond)
		p.wantServerMode(permissive)
		time.Sleep(150 * time.Millisecond)
		p.wantServerMode(strict)
	})
}

// TestStrictWaitsForClientsOfOtherControlPlanes: clients change first; soon afterwards servers are
// configured to accept only mutual TLS.
func TestStrictWaitsForClientsOfOtherControlPlanes(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		p.mesh.SetWorkload("elsewhere", "10.77.0.1")
		p.mesh.SetPeers(permissive)
		time.Sleep(1200 * time.Millisecond)
		p.wantServerMode(permissive)
		p.client.read()
		p.mesh.SetPeers(strict)
		for range 6 {
			time.Sleep(500 * time.Millisecond)
			p.wantServerMode(permissive)
		}
		time.Sleep(600 * time.Millisecond)
		p.wantServerMode(strict)
	})
}

// TestClientsWaitForServersOfOtherControlPlanes: a control plane that has only clients waits for
// servers of other control planes.
func TestClientsWaitForServersOfOtherControlPlanes(t *testing.T) {
	withPeers(t, strict, func(p *peers) {
		p.server.c.Close()
		p.mesh.SetWorkload("s0", pushtest.Proxy(0, "default").Addresses[0].String())
		p.mesh.SetPeers(disable)
		time.Sleep(900 * time.Millisecond)
		p.want(p.client.read())
		time.Sleep(200 * time.Millisecond)
		p.want(p.client.read(), "EDS +1 -0")
	})
}

// TestRepeatedModeChangesEnd: after several changes of modes servers accept only the last mode.
// Other changes do not prolong the transition.
func TestRepeatedModeChangesEnd(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		for _, mode := range []security.PeerAuthentication_MutualTLS_Mode{strict, permissive, disable, strict, disable, permissive, strict} {
			p.mesh.SetPeers(mode)
			time.Sleep(130 * time.Millisecond)
			p.wantServerMode(permissive)
			p.client.read()
		}
		for range 20 {
			p.mesh.EditRoutes()
			p.mesh.SetSidecar(map[string]string{"nobody": "here"})
			time.Sleep(100 * time.Millisecond)
			p.server.read()
			p.client.read()
		}
		p.wantServerMode(strict)
	})
}
