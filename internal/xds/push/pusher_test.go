package push_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// fixture is a mesh with a running Pusher in a testing/synctest bubble with a fake clock.
type fixture struct {
	t    *testing.T
	mesh *pushtest.Mesh
	gen  *pushtest.Generators
	p    *push.Pusher
	logs strings.Builder
}

// inBubble runs a test with a Pusher that has pushed a mesh of n services.
func inBubble(t *testing.T, n int, o push.Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, mesh: pushtest.New(t, n), gen: new(pushtest.Generators)}
		o.Generators = append(f.gen.Table(), o.Generators...)
		o.Logger = slog.New(slog.NewTextHandler(&f.logs, nil))
		f.p = push.New(o)
		f.mesh.Publish = f.p.Publish
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.p.Run(ctx); close(done) }()
		f.p.Publish(f.mesh.Current(), everything())
		f.settle()
		test(f)
		cancel()
		<-done
	})
}

// settle advances the clock by 600 ms and waits until all goroutines are idle.
func (f *fixture) settle() {
	synctest.Wait()
	time.Sleep(600 * time.Millisecond)
	synctest.Wait()
}

// decide waits until the observation window of refusals has passed.
func (f *fixture) decide() {
	synctest.Wait()
	time.Sleep(quarantine.DefaultWindow + 200*time.Millisecond)
	synctest.Wait()
}

// proxy is a delta client that subscribes as Envoy does and acknowledges everything.
type proxy struct {
	f   *fixture
	who *mesh.Proxy
	c   *push.Client
	got []string // "CDS +2 -1"
	has map[string]map[string]string
	// watched contains the clusters whose endpoints it subscribes to.
	watched map[string]bool
	nak     string          // refuses responses of this type if they contain a resource that it never accepted
	took    map[string]bool // by content
}

func (f *fixture) connect(who *mesh.Proxy) *proxy { return f.join(who, "") }

// join connects a proxy that refuses responses of a type.
func (f *fixture) join(who *mesh.Proxy, nak string) *proxy {
	x := &proxy{
		f:   f,
		who: who,
		c:   f.p.Connect(who, stream.Delta, "test"),
		has: map[string]map[string]string{},
		nak: nak,
	}
	x.c.Request(stream.Request{TypeURL: api.ClusterType})
	x.read()
	x.watch()
	x.c.Request(stream.Request{TypeURL: api.ListenerType})
	x.read()
	x.c.Request(stream.Request{TypeURL: api.RouteType, Subscribe: []string{"80"}})
	x.read()
	return x
}

// watch subscribes to the endpoints of the clusters that it has, and of no others.
func (x *proxy) watch() {
	r := stream.Request{TypeURL: api.EndpointType}
	for name := range x.has[api.ClusterType] {
		if name != "BlackHoleCluster" && !x.watched[name] {
			r.Subscribe = append(r.Subscribe, name)
		}
	}
	for name := range x.watched {
		if _, there := x.has[api.ClusterType][name]; !there {
			r.Unsubscribe = append(r.Unsubscribe, name)
			delete(x.watched, name)
			delete(x.has[api.EndpointType], name)
		}
	}
	if x.watched == nil {
		x.watched = map[string]bool{}
	} else if len(r.Subscribe)+len(r.Unsubscribe) == 0 {
		return
	}
	for _, name := range r.Subscribe {
		x.watched[name] = true
	}
	x.c.Request(r)
	x.read()
}

// follow reads all responses and subscribes to the endpoints of new clusters.
func (x *proxy) follow() {
	x.read()
	x.watch()
}

// read receives all waiting responses, and returns their types and numbers of resources.
func (x *proxy) read() []string {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	x.got = nil
	for {
		synctest.Wait()
		s, err := x.c.Next(now)
		if errors.Is(err, context.Canceled) {
			return x.got
		}
		if err != nil {
			x.f.t.Fatal(err)
		}
		x.got = append(x.got, fmt.Sprintf("%s +%d -%d", api.ShortType(s.TypeURL), s.Resources(), len(s.Removed)))
		x.c.Sent(s, 1, 0)
		r := stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce}
		if fresh := x.fresh(s); strings.Contains(x.nak, api.ShortType(s.TypeURL)) && fresh != "" {
			r.Rejected, r.Message = true, "no "+fresh
		} else {
			x.recordResources(s)
		}
		x.c.Request(r)
	}
}

// fresh returns the name of a resource that the proxy never accepted, or "".
func (x *proxy) fresh(s *stream.Send) string {
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			if !x.took[string(r.Body)] {
				return r.Name
			}
		}
	}
	return ""
}

func (x *proxy) recordResources(s *stream.Send) {
	if x.took == nil {
		x.took = map[string]bool{}
	}
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			x.took[string(r.Body)] = true
		}
	}
	if x.has[s.TypeURL] == nil {
		x.has[s.TypeURL] = map[string]string{}
	}
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			x.has[s.TypeURL][r.Name] = string(r.Body)
		}
	}
	for _, n := range s.Removed {
		delete(x.has[s.TypeURL], n)
	}
}

func (f *fixture) want(got []string, want ...string) {
	f.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.t.Errorf("responses (-want +got):\n%s", d)
	}
}

var allTypes = []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType}

func (f *fixture) calls() []int {
	var list []int
	for _, t := range allTypes {
		list = append(list, f.gen.Calls(t))
	}
	return list
}

// wantCalls compares how often the generators of CDS, EDS, LDS and RDS were called since before.
func (f *fixture) wantCalls(before []int, want ...int) {
	f.t.Helper()
	got := f.calls()
	for i := range got {
		got[i] -= before[i]
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("generators were called %v times, want %v (CDS, EDS, LDS, RDS)", got, want)
	}
}

func TestAlikeProxiesCostOneTranslation(t *testing.T) {
	inBubble(t, 20, push.Options{}, func(f *fixture) {
		before := f.calls()
		var fleet []*proxy
		for i := range 10 {
			fleet = append(fleet, f.connect(pushtest.Proxy(i, "default")))
		}
		f.wantCalls(before, 1, 20, 1, 1)
		for _, x := range fleet {
			if n := len(x.has[api.EndpointType]); n != 20 || len(x.has[api.RouteType]) != 1 {
				t.Fatalf("a proxy has %d endpoints, routes %v", n, x.has[api.RouteType])
			}
		}

		before = f.calls()
		f.mesh.SetEndpoints("s3", "10.1.0.99", "10.1.0.98")
		f.settle()
		for _, x := range fleet {
			f.want(x.read(), "EDS +1 -0")
		}
		f.wantCalls(before, 0, 1, 0, 0)

		before = f.calls()
		f.mesh.EditRoutes()
		f.settle()
		for _, x := range fleet {
			f.want(x.read(), "RDS +1 -0")
		}
		f.wantCalls(before, 1, 0, 1, 1)

		if s := f.p.Reports().Stats(); s.Classes != 1 || s.Clients != 10 || s.Producers != 4 {
			t.Errorf("stats %+v, want 10 clients in 1 class of 4 producers", s)
		}
	})
}

func TestServiceIsAddedAndRemoved(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		f.mesh.AddService("new")
		f.settle()
		f.want(x.read(), "CDS +1 -0", "EDS +1 -0", "RDS +1 -0")
		x.c.Request(stream.Request{TypeURL: api.EndpointType, Subscribe: []string{pushtest.ClusterName("new")}})
		f.want(x.read(), "EDS +1 -0")

		f.mesh.RemoveService("new")
		f.settle()
		f.want(
			x.read(),
			"RDS +1 -0",
			"CDS +0 -1",
		) // the cluster is removed after the route to it, and keeps its endpoints until then
		x.c.Request(stream.Request{TypeURL: api.EndpointType, Unsubscribe: []string{pushtest.ClusterName("new")}})
		f.settle()
		f.want(x.read())
	})
}

func TestNothingChangedIsSilent(t *testing.T) {
	inBubble(t, 5, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		before := f.calls()
		f.mesh.AddService("s1")                     // exists already
		f.mesh.SetEndpoints("s1", "10.1.0.1")       // has them already
		f.p.Publish(f.mesh.Current(), everything()) // everything is generated again, with the same result
		f.settle()
		f.want(x.read())
		f.wantCalls(before, 1, 5, 1, 1)
		time.Sleep(10 * time.Minute)
		f.want(x.read())
	})
}

func TestPushAllSendsEverythingAgain(t *testing.T) {
	inBubble(t, 2, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		f.p.PushAll()
		f.settle()
		f.want(x.read(), "CDS +3 -0", "EDS +2 -0", "LDS +1 -0", "RDS +1 -0")
	})
}

func TestSlowProxyJumpsToTheNewest(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		slow, quick := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		for i := range 20 {
			f.mesh.SetEndpoints("s1", fmt.Sprintf("10.2.0.%d", i))
			f.mesh.EditRoutes()
			f.settle()
			f.want(quick.read(), "EDS +1 -0", "RDS +1 -0")
		}
		f.want(slow.read(), "EDS +1 -0", "RDS +1 -0")
		if d := cmp.Diff(quick.has, slow.has); d != "" {
			t.Errorf("proxies of one class have different configuration:\n%s", d)
		}
	})
}

func TestChangesMergeWhileATurnIsUnderWay(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		time.Sleep(time.Minute)
		turns := f.p.Reports().Stats().Turns
		f.gen.Before = func(string) { time.Sleep(10 * time.Millisecond) } // makes a turn last 10 ms or longer
		for i := range 50 {
			f.mesh.SetEndpoints("s1", fmt.Sprintf("10.2.0.%d", i))
			f.mesh.EditRoutes()
			time.Sleep(time.Millisecond)
		}
		f.settle()
		if n := f.p.Reports().Stats().Turns - turns; n < 2 || n > 5 {
			t.Errorf("100 changes within 50 ms caused %d turns, want the first at once and the rest merged", n)
		}
		f.want(x.read(), "EDS +1 -0", "RDS +1 -0")
		if !strings.Contains(x.has[api.EndpointType][pushtest.ClusterName("s1")], "10.2.0.49") {
			t.Error("the last change did not arrive")
		}
	})
}

func TestCustomaryDebounce(t *testing.T) {
	o := push.Options{Debounce: push.Debounce{After: 100 * time.Millisecond, Max: time.Second}}
	inBubble(t, 3, o, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		turns := f.p.Reports().Stats().Turns
		for i := range 30 { // 50 edits 20 ms apart: one push
			f.mesh.SetEndpoints("s1", fmt.Sprintf("10.2.0.%d", i))
			time.Sleep(20 * time.Millisecond)
		}
		if n := f.p.Reports().Stats().Turns - turns; n != 0 {
			t.Errorf("%d turns before the changes stopped", n)
		}
		f.settle()
		f.want(x.read(), "EDS +1 -0")
		for i := range 140 { // constant changes for 2.8 s: one push every second
			f.mesh.SetEndpoints("s1", fmt.Sprintf("10.3.0.%d", i))
			time.Sleep(20 * time.Millisecond)
		}
		if n := f.p.Reports().Stats().Turns - turns; n != 3 {
			t.Errorf("%d turns after 2.8 s of constant change, want one and then two", n)
		}
	})
}

func TestClientMovesToAnotherClass(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		a, b := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.SetSidecar(map[string]string{"i": "1"}) // only b's
		f.settle()
		if s := f.p.Reports().Stats(); s.Classes != 2 || s.Producers != 8 {
			t.Errorf("stats %+v, want 2 classes of 4 producers", s)
		}
		f.want(a.read())
		f.want(b.read()) // a different class with identical resources
		f.mesh.SetEndpoints("s1", "10.9.9.9")
		f.settle()
		f.want(a.read(), "EDS +1 -0")
		f.want(b.read(), "EDS +1 -0")
		b.c.Close()
		if s := f.p.Reports().Stats(); s.Classes != 1 || s.Producers != 4 {
			t.Errorf("stats %+v after the last client of a class has disconnected", s)
		}
		a.c.Close()
		if s := f.p.Reports().Stats(); s.Classes != 0 || s.Producers != 0 || s.Clients != 0 {
			t.Errorf("stats %+v after all clients have disconnected", s)
		}
	})
}

func TestPanicKeepsTheLastResources(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		var broken atomic.Bool
		f.gen.Before = func(typeURL string) {
			if broken.Load() && typeURL == api.RouteType {
				panic("no such luck")
			}
		}
		broken.Store(true)
		f.mesh.AddService("new")
		f.settle()
		f.want(x.read()) // not even the clusters, which were generated: a partial ResourceSnapshot is not served
		if n := f.p.Reports().Stats().Panics; n != 1 {
			t.Errorf("%d panics counted, want 1", n)
		}
		if log := f.logs.String(); !strings.Contains(log, "no such luck") || !strings.Contains(log, "type=RDS") {
			t.Errorf("the log does not name the panic and its inputs:\n%s", log)
		}
		late := f.connect(pushtest.Proxy(1, "default")) // is served the existing resources
		if n := len(late.has[api.ClusterType]); n != 4 {
			t.Errorf("a proxy that connected meanwhile has %d clusters, want 4", n)
		}
		broken.Store(false)
		f.mesh.SetEndpoints("s1", "10.9.9.9")
		f.settle()
		f.want(x.read(), "CDS +1 -0", "EDS +2 -0", "RDS +1 -0")
	})
}

func TestNacksAreKept(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0", "RDS +1 -0") // the refused version, then the version that it has
		f.settle()
		f.want(x.read()) // not sent again
		nacks := f.p.Reports().Nacks()
		if len(nacks) != 1 {
			t.Fatalf("nacks %v, want 1", nacks)
		}
		n := nacks[0]
		if n.Message != "no 80" || n.Standing || n.Proxy.Name != "p0" || len(n.Resources) != 1 ||
			n.Resources[0].Name != "80" {
			t.Errorf("nack %+v", n)
		}
		if from := n.Resources[0].From; len(from) != 1 || from[0].Kind != api.VirtualService {
			t.Errorf("the refused resource was generated from %v, want the VirtualService", from)
		}
	})
}

func TestConnections(t *testing.T) {
	inBubble(t, 2, push.Options{}, func(f *fixture) {
		x, same := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(0, "default"))
		list := f.p.Reports().Connections()
		if len(list) != 2 || list[0].ID != x.c.ID() || list[1].ID != same.c.ID() || list[0].ID == list[1].ID {
			t.Fatalf("connections %+v, want two of one node", list)
		}
		if got := x.c.ID(); got != list[0].Proxy.Name+"."+list[0].Proxy.Namespace+"-1" {
			t.Errorf("id %q, want the proxy's name and a counter", got)
		}
		var types []string
		for _, w := range list[0].Types {
			types = append(
				types,
				fmt.Sprintf("%s names=%d resources=%d acked=%t", api.ShortType(w.TypeURL),
					len(w.Names), len(w.Resources()), w.SentNonce == w.AckedNonce),
			)
		}
		want := []string{
			"CDS names=0 resources=3 acked=true", "EDS names=2 resources=2 acked=true",
			"LDS names=0 resources=1 acked=true", "RDS names=1 resources=1 acked=true",
		}
		if d := cmp.Diff(want, types); d != "" {
			t.Errorf("types (-want +got):\n%s", d)
		}
		for _, w := range list[0].Types {
			if w.SentAt.IsZero() {
				t.Errorf("%s was sent, but its send time is zero", api.ShortType(w.TypeURL))
			}
		}
		for _, s := range f.p.Reports().StreamStates() {
			if s.Sync != stream.Synced || s.Proxy != list[0].Proxy && s.Proxy != list[1].Proxy {
				t.Errorf("the state of a proxy that has acknowledged everything is %+v", s)
			}
			if c, open := f.p.Reports().Connection(s.ID); !open || c.ID != s.ID || c.Proxy != s.Proxy || len(c.Types) != len(types) {
				t.Errorf("the stream %s is %+v", s.ID, c)
			}
		}
		if s := f.p.Reports().Sharing(); s.Unique == 0 || s.Total != 2*s.Unique {
			t.Errorf("two identical proxies: %+v, want a total of twice the unique resources", s)
		}
		if f.p.Disconnect("unknown") || !f.p.Disconnect(same.c.ID()) || len(f.p.Reports().Connections()) != 1 || len(f.p.Reports().StreamStates()) != 1 {
			t.Errorf("after disconnecting one of two proxies %d are left, want 1", len(f.p.Reports().Connections()))
		}
		if c, open := f.p.Reports().Connection(same.c.ID()); open {
			t.Errorf("the stream %s is open after its end", c.ID)
		}
	})
}

func TestUnsubscribedNamesAreRemoved(t *testing.T) {
	inBubble(t, 0, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		for i := range 200 {
			x.c.Request(stream.Request{TypeURL: api.RouteType, Subscribe: []string{fmt.Sprint("route-", i)}})
			f.want(x.read(), "RDS +1 -0")
			x.c.Request(stream.Request{TypeURL: api.RouteType, Unsubscribe: []string{fmt.Sprint("route-", i)}})
		}
		before := f.calls()
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		f.wantCalls(before, 1, 0, 1, 1)
	})
}

func TestUnknownRouteAppears(t *testing.T) {
	inBubble(t, 1, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.c.Request(stream.Request{TypeURL: api.RouteType, Subscribe: []string{"missing"}})
		f.want(x.read(), "RDS +0 -1")
	})
}

func TestBrokenProtocolEndsTheStream(t *testing.T) {
	inBubble(t, 1, push.Options{}, func(f *fixture) {
		c := f.p.Connect(pushtest.Proxy(0, "default"), stream.Delta, "test")
		c.Request(stream.Request{})
		_, err := c.Next(t.Context())
		var broken push.ProtocolError
		if !errors.As(err, &broken) || !strings.Contains(broken.Reason, "type_url") {
			t.Errorf("error %v, want one about type_url", err)
		}
		c.Close()
		if _, err := c.Next(t.Context()); !errors.Is(err, push.ErrClosed) {
			t.Errorf("error %v after Close, want ErrClosed", err)
		}
		c.Close() // a second call has no effect
	})
}

func TestConnectBeforeTheFirstSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, mesh: pushtest.New(t, 1), gen: new(pushtest.Generators)}
		f.p = push.New(push.Options{Generators: f.gen.Table()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.p.Run(ctx); close(done) }()
		x := f.connect(pushtest.Proxy(0, "default"))
		f.want(x.read())
		f.p.Publish(f.mesh.Current(), everything())
		f.settle()
		f.want(x.read(), "CDS +2 -0", "EDS +1 -0", "LDS +1 -0", "RDS +1 -0")
		x.c.Close()
		cancel()
		<-done
	})
}

func everything() snapshot.Delta { return snapshot.Delta{All: true} }

// TestStreamStatesHaveInvalidMetadata checks that the state of a stream lists the invalid values in
// the metadata of its proxy.
func TestStreamStatesHaveInvalidMetadata(t *testing.T) {
	inBubble(t, 1, push.Options{}, func(f *fixture) {
		p := pushtest.Proxy(0, "default")
		p.Metadata.Strings = map[string]string{"IDLE_TIMEOUT": "never", "DNS_CAPTURE": "true"}
		f.connect(p)
		list := f.p.Reports().StreamStates()
		if len(list) != 1 || len(list[0].InvalidMetadata) != 1 || list[0].InvalidMetadata[0].Key != "IDLE_TIMEOUT" {
			t.Errorf("states %+v, want one with the invalid IDLE_TIMEOUT", list)
		}
	})
}
