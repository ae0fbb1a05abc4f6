package push_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
)

// newest returns the newest change. It fails the test unless the change has these numbers of
// proxies: all, acknowledged, refused, disconnected, pending.
func (f *fixture) newest(want ...int) push.Change {
	f.t.Helper()
	c := f.p.Reports().Changes(time.Second)[0]
	if got := []int{c.Proxies, c.Acknowledged, c.Refused, c.Disconnected, c.Pending()}; !slices.Equal(got, want) {
		f.t.Errorf("change %d: proxies, acknowledged, refused, disconnected, pending = %v, want %v", c.Number, got, want)
	}
	return c
}

// fleet connects n identical proxies.
func (f *fixture) fleet(n int) []*proxy {
	list := make([]*proxy, n)
	for i := range list {
		list[i] = f.connect(pushtest.Proxy(i, "default"))
	}
	return list
}

func TestChangeIsFollowedToTheLastProxy(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		fleet := f.fleet(3)
		f.mesh.SetEndpoints("s1", "10.7.0.1")
		f.settle()
		c := f.newest(3, 0, 0, 0, 3)
		cause := push.Cause{Kind: push.EndpointsChanged, Object: config.Key{Kind: api.Service, Namespace: "default", Name: "s1"}}
		if !slices.Equal(c.Causes, []push.Cause{cause}) || c.MoreCauses != 0 || c.Classes != 1 ||
			c.Generated == nil || c.Generated.Resources[api.EndpointType] != 1 || len(c.Generated.Resources) > 1 {
			t.Errorf("change = %+v, generated %+v", c, c.Generated)
		}
		if len(c.Behind) != 0 {
			t.Errorf("before a second has passed, Behind = %+v", c.Behind)
		}
		fleet[0].read()
		time.Sleep(time.Second)
		if c = f.newest(3, 1, 0, 0, 2); len(c.Behind) != 2 || len(c.Behind[0].Types) != 0 {
			t.Errorf("Behind = %+v", c.Behind)
		}
		fleet[2].read()
		c = f.newest(3, 2, 0, 0, 1)
		if len(c.Behind) != 1 || c.Behind[0].Proxy.Name != "p1" || c.Slowest.Name != "p2" || c.Last-c.First != time.Second {
			t.Errorf("change = %+v", c)
		}
		fleet[1].c.Close()
		f.newest(3, 2, 0, 1, 0)
	})
}

// TestProxiesWithoutTheResourcesAreNotCounted checks that a change of endpoints counts only the
// proxy that subscribes to them.
func TestProxiesWithoutTheResourcesAreNotCounted(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		fleet := f.fleet(2)
		other := f.p.Connect(pushtest.Proxy(5, "default"), 0, "test") // subscribes to nothing
		f.mesh.SetEndpoints("s1", "10.7.0.1")
		f.settle()
		for _, x := range append(fleet, &proxy{f: f, c: other}) {
			x.read()
		}
		f.newest(2, 2, 0, 0, 0)
		other.Close()
		f.newest(2, 2, 0, 0, 0)
	})
}

// TestSlowProxyAnswersSeveralChangesAtOnce checks that one answer of a slow proxy counts for each
// change that it covers, both for changes merged in its mailbox and for the one that is being sent.
func TestSlowProxyAnswersSeveralChangesAtOnce(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		slow := f.connect(pushtest.Proxy(0, "default"))
		before := len(f.p.Reports().Changes(time.Second))
		for _, address := range []string{"10.7.0.1", "10.7.0.2", "10.7.0.3"} {
			f.mesh.SetEndpoints("s1", address)
			f.settle()
			f.newest(1, 0, 0, 0, 1)
		}
		f.want(slow.read(), "EDS +1 -0")
		list := f.p.Reports().Changes(time.Second)
		for _, c := range list[:len(list)-before] {
			if c.Acknowledged != 1 || c.Pending() != 0 || c.Slowest.Name != "p0" {
				t.Errorf("change = %+v", c)
			}
		}
		if list[0].Last >= list[2].Last {
			t.Errorf("durations: newest %v, oldest %v", list[0].Last, list[2].Last)
		}
	})
}

func TestRefusedChange(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		c := f.newest(1, 0, 1, 0, 0)
		if len(c.Refusals) != 1 || c.Refusals[0].TypeURL != api.RouteType || c.Refusals[0].Resource != "80" ||
			c.Refusals[0].Message != "no 80" || c.Refusals[0].Proxies[0].Name != "p0" {
			t.Errorf("refusals = %+v", c.Refusals)
		}
		x.nak = ""
		f.mesh.SetEndpoints("s1", "10.7.0.1")
		f.settle()
		x.read()
		f.newest(1, 1, 0, 0, 0) // the refused routes belong to the previous change
	})
}

// TestChangeInTwoParts checks that clients receive the second part of a change when the server has
// acknowledged the first part, and that each client counts once.
func TestChangeInTwoParts(t *testing.T) {
	inBubble(t, 3, push.Options{Generators: []view.Generator{inbound()}}, func(f *fixture) {
		server, client := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.Apply(
			pushtest.EndpointsEvent("s1", pushtest.Proxy(0, "default").Addresses[0].String()),
			pushtest.RemovalEvent("s2"),
		)
		time.Sleep(100 * time.Millisecond)
		f.want(client.read(), "EDS +1 -0")
		f.newest(2, 1, 0, 0, 1)
		f.want(server.read(), "EDS +1 -0", "LDS +1 -0", "RDS +1 -0", "CDS +0 -1")
		time.Sleep(100 * time.Millisecond)
		f.newest(2, 1, 0, 0, 1) // the second part of the client
		f.want(client.read(), "RDS +1 -0", "CDS +0 -1")
		c := f.newest(2, 2, 0, 0, 0)
		if c.Slowest.Name != "p1" || c.Generated.Resources[api.ClusterType] == 0 {
			t.Errorf("change = %+v, generated %+v", c, c.Generated)
		}
	})
}

// TestOldChangesAreEvicted checks that the oldest changes are evicted when the log is full, even
// while a proxy has not answered them.
func TestOldChangesAreEvicted(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		slow := f.connect(pushtest.Proxy(0, "default"))
		for i := range 300 {
			f.mesh.SetEndpoints("s1", "10.7.0."+[]string{"1", "2"}[i%2])
			f.settle()
		}
		slow.read()
		list := f.p.Reports().Changes(time.Second)
		if len(list) != 256 || list[0].Number != list[255].Number+255 {
			t.Fatalf("%d changes, numbers %d to %d", len(list), list[len(list)-1].Number, list[0].Number)
		}
		for _, c := range list {
			if c.Acknowledged != 1 || c.Pending() != 0 {
				t.Fatalf("change %d = %+v", c.Number, c)
			}
		}
	})
}

// TestCausesOfChanges checks that changes name the objects that caused them, up to a limit.
func TestCausesOfChanges(t *testing.T) {
	inBubble(t, 3, push.Options{Debounce: push.Debounce{After: 100 * time.Millisecond}}, func(f *fixture) {
		describe := func() string {
			f.settle()
			var parts []string
			for _, c := range f.p.Reports().Changes(time.Second)[0].Causes {
				parts = append(parts, c.Kind.String()+" "+c.Object.String())
			}
			return strings.Join(parts, ", ")
		}
		if got := describe(); got != "everything //" {
			t.Errorf("causes of the first change = %q", got)
		}
		f.mesh.EditRoutes()
		if got := describe(); got != "object VirtualService/default/edit" {
			t.Errorf("causes of an edit of routes = %q", got)
		}
		f.mesh.RemoveService("s2")
		if got := describe(); got != "object Service/default/s2" {
			t.Errorf("causes of the removal of a service = %q", got)
		}
		for i := range 150 {
			f.mesh.AddService("new" + strings.Repeat("x", i))
		}
		f.settle()
		if c := f.p.Reports().Changes(time.Second)[0]; len(c.Causes) != 100 || c.MoreCauses != 50 {
			t.Errorf("got %d causes and %d more", len(c.Causes), c.MoreCauses)
		}
	})
}
