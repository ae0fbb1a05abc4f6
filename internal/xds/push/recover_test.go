package push_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func newRecorder() (r *recovery.Recorder, log *strings.Builder, panics *int) {
	log, panics = new(strings.Builder), new(int)
	o := recovery.Options{Log: slog.New(slog.NewTextHandler(log, nil)), Count: func(string) { *panics++ }}
	return recovery.New(o), log, panics
}

// TestMachineThatPanics: when the state machine of a stream panics, the stream ends with
// ErrInternal. Other proxies of its class are served, and so is the proxy when it reconnects.
func TestMachineThatPanics(t *testing.T) {
	r, log, panics := newRecorder()
	inBubble(t, 3, push.Options{Recovery: r}, func(f *fixture) {
		x, other := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		x.c.BreakMachine()
		x.c.Request(stream.Request{TypeURL: api.ClusterType})
		if _, err := x.c.Next(t.Context()); !errors.Is(err, push.ErrInternal) {
			t.Errorf("the stream ends with %v", err)
		}
		x.c.Request(stream.Request{TypeURL: api.ClusterType}) // a request that was in transit
		x.c.Close()
		if *panics != 1 || !strings.Contains(log.String(), "proxy="+x.who.ID) ||
			!strings.Contains(log.String(), "stack=") {
			t.Errorf("%d panics, log %s", *panics, log)
		}
		f.mesh.AddService("new")
		f.settle()
		other.follow()
		if again := f.connect(
			pushtest.Proxy(0, "default"),
		); len(again.has[api.ClusterType]) != len(other.has[api.ClusterType]) ||
			len(other.has[api.ClusterType]) != 5 {
			t.Errorf("the other has %d clusters, the one that came again %d, want 5",
				len(other.has[api.ClusterType]), len(again.has[api.ClusterType]))
		}
		if s := f.p.Reports().Stats(); s.Clients != 2 {
			t.Errorf("%d clients", s.Clients)
		}
	})
}

// TestKeyThatPanics: while computing the Key of a proxy panics, connected proxies stay in their
// class and new ones are not served, until the object that causes it is fixed. Others are served.
func TestKeyThatPanics(t *testing.T) {
	r, log, panics := newRecorder()
	inBubble(t, 3, push.Options{Recovery: r}, func(f *fixture) {
		x, other := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "elsewhere"))
		key := config.Key{Kind: api.Sidecar, Namespace: "default", Name: "poisoned"}
		f.mesh.Apply(mesh.Event{Config: &config.Config{Meta: config.Meta{Key: key}, Hash: 7}})
		f.mesh.SetEndpoints("s1", "10.7.7.7")
		f.mesh.AddService("new")
		f.settle()
		x.follow()
		other.follow()
		if *panics == 0 || !strings.Contains(log.String(), "proxy="+x.who.ID) {
			t.Fatalf("%d panics, log %s", *panics, log)
		}
		if len(other.has[api.ClusterType]) != 5 || len(x.has[api.ClusterType]) == 0 {
			t.Errorf("the other has %d clusters, the proxy %d", len(other.has[api.ClusterType]),
				len(x.has[api.ClusterType]))
		}
		late := f.p.Connect(pushtest.Proxy(2, "default"), stream.Delta, "test")
		defer late.Close()
		good, err := config.New(config.Meta{Key: key}, &networking.Sidecar{})
		if err != nil {
			t.Fatal(err)
		}
		f.mesh.Apply(mesh.Event{Config: good})
		f.settle()
		x.follow()
		late.Request(stream.Request{TypeURL: api.ClusterType})
		if s, err := late.Next(t.Context()); err != nil || s.Resources() != 5 {
			t.Errorf("the proxy that connected meanwhile is sent %v, error %v", s, err)
		}
		if len(x.has[api.ClusterType]) != 5 {
			t.Errorf("fixed: the proxy has %d clusters, want 5", len(x.has[api.ClusterType]))
		}
	})
}
