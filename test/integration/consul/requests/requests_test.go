package requests

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

const (
	// patience is the timeout of each wait for Consul or for an effect.
	patience = 60 * time.Second
	// loadRate is the number of requests a second while servers fail.
	loadRate = 40
	// inARow is the number of equal answers that show a change. Where three versions answer in turn, as
	// many of two come by chance once in 25,000 times, and each is checked again.
	inARow = 25
)

// startMesh starts Bookinfo with services in Consul. edit changes the options; it may be nil.
func startMesh(t *testing.T, servers int, edit func(*mesh.Options)) *mesh.Mesh {
	t.Helper()
	consul.Require(t)
	netns.Require(t)
	proxy := envoy.RequireBinary(t)
	program, err := consul.Binary(t.Context(), func() { t.Log("building Consul: once, several minutes") })
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	o := mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: t.TempDir(), Manifests: bookinfo.Platform(),
		Consul: program, ConsulServers: servers,
	}
	if edit != nil {
		edit(&o)
	}
	return meshtest.Start(t, o)
}

// caller sends requests from the pod "client".
type caller struct {
	*mesh.Caller
	t *testing.T
}

func newCaller(t *testing.T, m *mesh.Mesh) caller {
	c := mesh.NewCaller(m.Workload("client").Node)
	t.Cleanup(c.Close)
	return caller{c, t}
}

// await waits until each of the versions of reviews answers at the URL, and no other one.
func (c caller) await(url string, versions ...string) {
	c.t.Helper()
	serving.Eventually(c.t, patience, fmt.Sprintf("%s answers with %v", url, versions), func() error {
		seen := map[string]bool{}
		for range inARow {
			a := c.Get(c.t.Context(), url)
			if !slices.Contains(versions, a.Version()) {
				return fmt.Errorf("answer %s", a)
			}
			seen[a.Version()] = true
		}
		if len(seen) != len(versions) {
			return fmt.Errorf("only %v answered", seen)
		}
		return nil
	})
}

// TestNoRequestIsLost: three Consul servers fail one after another, in four ways. During each
// failure a version is deregistered and registered again, which Envoy applies. No request may fail.
func TestNoRequestIsLost(t *testing.T) {
	m := startMesh(t, 3, nil)
	c, url := newCaller(t, m), mesh.ConsulURL(mesh.Reviews)
	c.await(url, "v1", "v2", "v3")
	t.Cleanup(func() {
		for _, s := range m.Consul.Servers {
			if t.Failed() {
				t.Logf("the log of %s ends with\n%s", s.Node.Name(), s.Tail(40))
			}
		}
	})
	load := mesh.StartLoad(m.Workload("client").Node, url, loadRate)
	changes := 0
	change := func() {
		t.Helper()
		accepted(t, "deregister", func() error { return m.Consul.Deregister("reviews-v2") })
		c.await(url, "v1", "v3")
		accepted(t, "register", func() error { return m.Consul.Register("reviews-v2") })
		c.await(url, "v1", "v2", "v3")
		changes += 2
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	for i, s := range m.Consul.Servers {
		for _, fault := range []struct {
			name       string
			begin, end func() error
		}{
			{"killed", func() error { return s.Kill(ctx) }, func() error { return s.Start(ctx) }},
			{"partitioned from the servers", func() error { return cutOff(ctx, s, false) }, func() error { return rejoin(ctx, s, false) }},
			{"partitioned from all", func() error { return cutOff(ctx, s, true) }, func() error { return rejoin(ctx, s, true) }},
			{"restarted empty", func() error {
				if err := s.Kill(ctx); err != nil {
					return err
				}
				return s.DeleteData()
			}, func() error { return s.Start(ctx) }},
		} {
			leader, before := s.IsLeader(), time.Now()
			must(t, fault.begin())
			change()
			must(t, fault.end())
			must(t, m.Consul.AwaitVoters(ctx))
			t.Logf("server %d (leader: %t) %s: %v, %+v", i+1, leader, fault.name, time.Since(before).Round(time.Millisecond), load.Tally())
		}
		change()
	}
	for _, s := range m.Consul.Servers {
		must(t, s.Kill(ctx))
	}
	c.await(url, "v1", "v2", "v3") // without any server
	for _, s := range m.Consul.Servers {
		must(t, s.Launch())
	}
	must(t, m.Consul.AwaitHealthy(ctx))
	change()
	tally := load.Stop()
	t.Logf("%d requests, %d lost, %d changes", tally.Sent, tally.Failed, changes)
	if tally.Failed > 0 || tally.Rate() < loadRate/2 {
		t.Errorf("%d of %d requests failed, at %.0f a second: %v", tally.Failed, tally.Sent, tally.Rate(), tally.Failures)
	}
}

// cutOff partitions a server and waits until it has no leader.
func cutOff(ctx context.Context, s *mesh.ConsulServer, alone bool) error {
	return errors.Join(s.Partition(alone), s.AwaitLeader(ctx, false))
}

// rejoin ends a partition and waits until the server follows the leader again.
func rejoin(ctx context.Context, s *mesh.ConsulServer, alone bool) error {
	return errors.Join(s.Heal(alone), s.AwaitLeader(ctx, true))
}

// accepted repeats a change until Consul accepts it: while servers elect a leader, they refuse changes.
func accepted(t *testing.T, what string, change func() error) {
	t.Helper()
	serving.Eventually(t, patience, what, change)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHosts calls a service by each host and address that it has, and an instance by its own address.
func TestHosts(t *testing.T) {
	vip := netip.MustParseAddr("10.96.1.3") // of reviews
	other := netip.MustParseAddr("10.96.9.9")
	m := startMesh(t, 1, func(o *mesh.Options) {
		o.Hosts = map[string]netip.Addr{
			"reviews.service.dc1.consul": vip, "v2.reviews.service.consul": other, "v3.reviews.service.consul": other,
		}
	})
	c := newCaller(t, m)
	for _, x := range []struct {
		host     string
		versions []string
	}{
		{"reviews.service.consul", []string{"v1", "v2", "v3"}},
		{"reviews.service.dc1.consul", []string{"v1", "v2", "v3"}},
		{vip.String(), []string{"v1", "v2", "v3"}},
		{"v2.reviews.service.consul", []string{"v2"}},
		{"v3.reviews.service.consul", []string{"v3"}},
	} {
		c.await("http://"+x.host+":9080/reviews/0", x.versions...)
	}
	// The proxy of an instance names the service in its answers only if the control plane found the
	// instance by its address: it has no label and no name that Consul knows.
	direct := mesh.NewCaller(m.Consul.Agent)
	defer direct.Close()
	for pod, service := range map[string]string{"reviews-v1": "reviews", "ratings-v1": "ratings"} {
		url := "http://" + m.Workload(pod).Pod.Status.PodIP + ":9080/health"
		serving.Eventually(t, patience, "the proxy of "+pod+" knows its service", func() error {
			a := direct.Get(t.Context(), url)
			if got := a.Header.Get("x-envoy-decorator-operation"); !strings.HasPrefix(got, service+".service.consul:9080") {
				return fmt.Errorf("operation %q of the answer %s", got, a)
			}
			return nil
		})
	}
}
