package sites

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
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
	// loadRate is the number of requests a second while a site fails.
	loadRate = 20
	// inARow is the number of equal answers that show a change.
	inARow = 25
	// domain is the suffix of the names of services that are not in Consul, and the trust domain.
	domain = "cluster.local"
	// port is that of the service reviews.
	port = 9080
)

// anyAddress is the address of all hosts of HTTP services: proxies route by host.
var anyAddress = netip.MustParseAddr("10.96.9.9")

// world is two sites, which trust the same authority. Nodes of both are on one bridge; what one site
// cannot reach of the other is dropped.
type world struct {
	t              *testing.T
	network        *netns.Network
	dir, bin       string // of everything; of the programs
	program, proxy string // Consul and Envoy
}

func newWorld(t *testing.T) *world {
	t.Helper()
	consul.Require(t)
	netns.Require(t)
	w := &world{t: t, dir: t.TempDir(), bin: t.TempDir(), proxy: envoy.RequireBinary(t)}
	var err error
	w.program, err = consul.Binary(t.Context(), func() { t.Log("building Consul: once, several minutes") })
	w.must(err)
	w.must(meshtest.Build(w.bin))
	w.network, err = netns.New(netns.Options{Dir: w.dir})
	w.must(err)
	t.Cleanup(func() { w.check(w.network.Close()) })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// caDir is the directory of the authority, which both sites use.
func (w *world) caDir() string { return filepath.Join(w.dir, "ca") }

// addNode adds a node with the last two numbers of its address.
func (w *world) addNode(name string, a, b byte, hosts map[string]netip.Addr) *netns.Node {
	w.t.Helper()
	addr := netip.AddrFrom4([4]byte{10, 66, a, b})
	node, err := w.network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{addr}, Hosts: hosts})
	w.must(err)
	return node
}

// start starts a process, and shows the end of its log if the test fails.
func (w *world) start(node *netns.Node, c netns.Command) *netns.Process {
	w.t.Helper()
	p, err := node.Start(c)
	w.must(err)
	w.showLog(p)
	return p
}

func (w *world) showLog(p *netns.Process) {
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("the log of %s ends with\n%s", p.LogPath(), p.Tail(30))
		}
	})
}

// addWorkload adds a node with a proxy and, if the label app is reviews, with an instance of reviews that
// answers with its name. The node resolves hosts. It returns the node, whose address ends with the number.
func (s *site) addWorkload(o component.Workload, number byte, hosts ...string) *netns.Node {
	s.t.Helper()
	names := map[string]netip.Addr{component.ControlPlaneHost: s.plane.Node.Addr()}
	for _, h := range hosts {
		names[h] = anyAddress
	}
	node := s.addNode(o.Name, 1, number, names)
	if o.Labels["app"] == "reviews" {
		app := s.start(node, netns.Command{
			Name: "app", Path: filepath.Join(s.bin, "bookinfo"), Args: []string{"reviews", "--pod-name", o.Name},
		})
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		s.must(app.AwaitPort(ctx, fmt.Sprint("127.0.0.1:", port)))
	}
	sidecars, err := component.NewSidecars(component.SidecarOptions{
		Agent: filepath.Join(s.bin, "pilot-agent"), Capture: filepath.Join(s.bin, "istio-iptables"), Envoy: s.world.proxy,
		CADir: s.caDir(), Domain: domain,
	})
	s.must(err)
	o.Address = node.Addr()
	p, err := sidecars.Start(s.t.Context(), node, o)
	if p != nil {
		s.showLog(p)
	}
	s.must(err)
	return node
}

// cutOff drops packets from a node to others.
func (w *world) cutOff(from *netns.Node, to ...netip.Addr) {
	w.t.Helper()
	for _, a := range to {
		w.must(from.Do(func() error {
			bits := a.BitLen()
			return netlink.RouteReplace(&netlink.Route{
				Dst: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, bits)}, Type: unix.RTN_BLACKHOLE,
			})
		}))
	}
}

// await waits until each of the instances of reviews answers at a host, and no other one.
func (w *world) await(c *mesh.Caller, host string, instances ...string) {
	w.t.Helper()
	serving.Eventually(w.t, patience, fmt.Sprintf("%s answers with %v", host, instances), func() error {
		seen := map[string]bool{}
		for range inARow {
			a := c.Get(w.t.Context(), url(host))
			if a.Version() == "" {
				return fmt.Errorf("answer %s", a)
			}
			seen[a.Version()] = true
		}
		for _, i := range instances {
			if !seen[i] {
				return fmt.Errorf("%v answered", seen)
			}
		}
		if len(seen) != len(instances) {
			return fmt.Errorf("%v answered", seen)
		}
		return nil
	})
}

// requireNone ends a load and fails the test if a request of it failed.
func (w *world) requireNone(load *mesh.Load) {
	w.t.Helper()
	tally := load.Stop()
	w.t.Logf("%d requests, %d failed, %v", tally.Sent, tally.Failed, tally.Versions)
	if tally.Failed > 0 || tally.Rate() < loadRate/2 {
		w.t.Errorf("%d of %d requests failed, at %.0f a second: %v", tally.Failed, tally.Sent, tally.Rate(), tally.Failures)
	}
}

// url returns the URL of reviews at a host.
func url(host string) string { return fmt.Sprintf("http://%s:%d/reviews/0", host, port) }
