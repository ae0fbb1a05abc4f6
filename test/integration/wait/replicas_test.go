package wait

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// newReplicas starts two replicas that read one folder and know each other and further peers.
func newReplicas(t *testing.T, peers ...string) (a, b *fixture) {
	t.Helper()
	dir := t.TempDir()
	ports := []string{serving.FreeAddress(t), serving.FreeAddress(t)}
	var list []*fixture
	for i := range ports {
		f := &fixture{t: t, dir: dir}
		if i == 0 {
			f.write("services.yaml", services)
			f.write("route.yaml", route("0"))
		}
		o := controlplane.Options(t)
		o.ConfigDir, o.HTTPAddr, o.PodName = dir, ports[i], fmt.Sprintf("istiod-%d", i)
		o.Peers = append([]string{ports[1-i]}, peers...)
		f.Plane = controlplane.Start(t, o)
		list = append(list, f)
	}
	return list[0], list[1]
}

// TestWaitAtOneReplica queries one of two replicas. The answer is about the proxies of both.
func TestWaitAtOneReplica(t *testing.T) {
	a, b := newReplicas(t)
	a.connect("a-1")
	late := b.connect("b-1")
	a.wait("vs/reviews").want(t, 0, "VirtualService/shop/reviews (2 of 2 replicas): all 2 proxies are up to date")

	late.SetSilent(true)
	a.write("route.yaml", route("1"))
	a.wait("-f", a.path("route.yaml"), "--timeout", "1500ms").want(t, 3, "1 of 2 proxies up to date; behind: b-1.shop (RDS 9080 not acknowledged, for ")
	done := make(chan result, 1)
	go func() { done <- a.wait("-f", a.path("route.yaml")) }()
	select {
	case r := <-done:
		t.Fatalf("ended while a proxy of the other replica was behind: %s", r.text)
	case <-time.After(500 * time.Millisecond):
	}
	late.SetSilent(false)
	(<-done).want(t, 0, "all 2 proxies are up to date")

	a.wait("vs/reviews", "--proxy", "b-1").want(t, 0, "1 proxy is up to date")
	a.wait("vs/reviews", "--proxy", "absent", "--timeout", "1s").want(t, 3, `no replica that answers has a proxy "absent"`)
	c := cli.New()
	var report bytes.Buffer
	c.SetOut(&report)
	c.SetArgs([]string{"diff", "--server", a.HTTP, "--delete", "vs/reviews", "--namespace", "shop"})
	if err := c.ExecuteContext(t.Context()); cli.ExitCode(err) != 1 || !strings.Contains(report.String(), "2 proxies: a-1.shop, b-1.shop") {
		t.Errorf("a comparison at one replica: %v\n%s", err, report.String())
	}

	a.wait("vs/reviews", "--server", a.HTTP+","+b.HTTP).want(t, 0, "(istiod-0): 1 proxy", "(istiod-1): 1 proxy")
}

// TestReadingAtOneReplica queries one of two replicas with commands that list or find proxies. The
// other replica has a proxy that this one does not have. A third one is unreachable, and is named.
func TestReadingAtOneReplica(t *testing.T) {
	away := serving.FreeAddress(t)
	a, b := newReplicas(t, away)
	a.connect("a-1")
	refusing := b.connect("b-1")
	a.run("ps", "-o", "wide").want(t, 0, "a-1.shop", "b-1.shop", "istiod-1", "warning: the output is incomplete: ask the control plane ("+away+")")
	a.run("ps", "b-1").want(t, 0, "RouteConfiguration")
	a.run("pc", "routes", "b-1.shop").want(t, 0, "reviews")
	a.run("explain", "b-1.shop", "http://reviews.shop:9080/").want(t, 0, "outbound|9080||reviews.shop")
	a.run("describe", "pod", "b-1.shop").want(t, 0, "b-1")
	a.run("why", "vs/reviews", "-o", "wide").want(t, 0, "proxies: 2 of 2", "a-1.shop: ", "b-1.shop: ", away)
	a.run("pc", "routes", "c-1.shop").want(t, 1, away)

	a.run("problems").want(t, 0, "no problems", away)
	a.run("version", "--remote").want(t, 0, "(2 proxies)")
	refusing.Refuse(api.RouteType)
	a.write("route.yaml", route("1"))
	a.Eventually("the rejection at the other replica is listed", func() error {
		if r := a.run("nacks"); !strings.Contains(r.text, "9080") {
			return fmt.Errorf("nacks shows %s", r.text)
		}
		return nil
	})
}

// TestReplicaThatHangs: a third replica that accepts connections and answers nothing is named, and
// the wait does not end without it.
func TestReplicaThatHangs(t *testing.T) {
	longtest.Test(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepting := serving.NewGroup(t)
	accepting.Go(func(testing.TB) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close() // at the end of the test
		}
	})
	t.Cleanup(func() { _ = l.Close(); accepting.Wait() })
	a, b := newReplicas(t, l.Addr().String())
	a.connect("a-1")
	b.connect("b-1")
	start := time.Now()
	a.wait("vs/reviews", "--timeout", "8s").want(t, 3,
		"(2 of 3 replicas)", "2 of 2 proxies up to date; replica "+l.Addr().String()+": ", "it does not answer in time")
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %s", d)
	}
}
