package push_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
)

// inbound returns a generator of a listener that describes what a proxy serves.
func inbound() view.Generator {
	return view.Generator{TypeURL: api.ListenerType, Inbound: true, All: func(v *view.View) []*resource.Resource {
		return []*resource.Resource{
			resource.FromBytes("virtualInbound", api.ListenerType, []byte(fmt.Sprint(v.Key.Inbound))),
		}
	}}
}

func TestServersGoFirst(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		address := pushtest.Proxy(0, "default").Addresses[0].String()
		f.mesh.SetEndpoints("s1", address) // the server is an endpoint of s1 now
		f.mesh.EditRoutes()
		shortly := func() { time.Sleep(100 * time.Millisecond) }
		shortly()
		f.want(client.read(), "EDS +1 -0") // the rest of the change waits
		f.want(server.read(), "EDS +1 -0", "LDS +1 -0", "RDS +1 -0")
		shortly()
		f.want(client.read(), "RDS +1 -0")
	})
}

func TestSilentServersAreNotAwaitedForLong(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.SetEndpoints("s1", pushtest.Proxy(0, "default").Addresses[0].String())
		f.mesh.EditRoutes()
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0")
		f.mesh.SetEndpoints("s2", "10.8.0.1") // endpoints are pushed meanwhile
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0")
		time.Sleep(2 * time.Second)
		f.want(client.read(), "RDS +1 -0")
		f.want(server.read(), "EDS +2 -0", "LDS +1 -0", "RDS +1 -0")
	})
}

// TestEndpointsOfHeldClustersStay removes a service together with a change of what a server serves.
// While clusters and routes are held back, callers keep the endpoints of the service, though the
// newest configuration has none for it.
func TestEndpointsOfHeldClustersStay(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.Apply(
			pushtest.EndpointsEvent("s1", pushtest.Proxy(0, "default").Addresses[0].String()),
			pushtest.RemovalEvent("s2"),
		)
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0") // of s1 alone
		f.want(server.read(), "EDS +1 -0", "LDS +1 -0", "RDS +1 -0", "CDS +0 -1")
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "RDS +1 -0", "CDS +0 -1")
	})
}

func TestDisconnectedServersAreNotAwaited(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.SetEndpoints("s1", pushtest.Proxy(0, "default").Addresses[0].String())
		f.mesh.EditRoutes()
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0")
		server.c.Close()
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "RDS +1 -0")
	})
}

// TestEndpointsWaitForHeldClusters is TestEndpointsOfHeldClustersStay where clusters take longer to
// generate than endpoints: no proxy is sent an empty assignment for a cluster that its routes still
// use.
func TestEndpointsWaitForHeldClusters(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.gen.Before = func(typeURL string) {
			if typeURL == api.ClusterType {
				time.Sleep(50 * time.Millisecond)
			}
		}
		f.mesh.Apply(
			pushtest.EndpointsEvent("s1", pushtest.Proxy(0, "default").Addresses[0].String()),
			pushtest.RemovalEvent("s2"),
		)
		time.Sleep(25 * time.Millisecond) // the endpoints are there, the clusters are not
		f.want(client.read())
		f.want(server.read())
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0") // of s1 alone
		f.want(server.read(), "EDS +1 -0", "LDS +1 -0", "RDS +1 -0", "CDS +0 -1")
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "RDS +1 -0", "CDS +0 -1")
	})
}
