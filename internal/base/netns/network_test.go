package netns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func newNetwork(t *testing.T, opts netns.Options) *netns.Network {
	t.Helper()
	netns.Require(t)
	opts.Dir = t.TempDir()
	network, err := netns.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return network
}

func addNode(t *testing.T, network *netns.Network, name string, addrs ...string) *netns.Node {
	t.Helper()
	opts := netns.NodeOptions{Name: name}
	for _, a := range addrs {
		opts.Addrs = append(opts.Addrs, netip.MustParseAddr(a))
	}
	node, err := network.AddNode(opts)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// serve answers each request on a node with the remote address that it saw.
func serve(t *testing.T, node *netns.Node, address string) {
	t.Helper()
	l, err := node.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprint(w, host)
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
}

func get(t *testing.T, node *netns.Node, url string) string {
	t.Helper()
	client := node.Client(5 * time.Second)
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestNodesReachEachOther(t *testing.T) {
	network := newNetwork(t, netns.Options{Prefixes: []netip.Prefix{
		netip.MustParsePrefix("10.66.0.0/16"), netip.MustParsePrefix("fd66::/64"),
	}})
	a := addNode(t, network, "a", "10.66.0.2", "fd66::2")
	b := addNode(t, network, "b", "10.66.7.3", "fd66::3")
	serve(t, b, "10.66.7.3:80")
	serve(t, b, "[fd66::3]:80")

	if got := get(t, a, "http://10.66.7.3/"); got != "10.66.0.2" {
		t.Errorf("over IPv4, b was called by %q, want 10.66.0.2", got)
	}
	if got := get(t, a, "http://[fd66::3]/"); got != "fd66::2" {
		t.Errorf("over IPv6, b was called by %q, want fd66::2", got)
	}
	if err := a.SetHosts(map[string]netip.Addr{"books": netip.MustParseAddr("10.66.7.3")}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, a, "http://books:80/"); got != "10.66.0.2" {
		t.Errorf("by name, b was called by %q, want 10.66.0.2", got)
	}
	if traffic, err := a.Traffic(); err != nil || traffic.TxPackets == 0 || traffic.RxBytes == 0 {
		t.Errorf("a counted %+v (%v), want packets both ways", traffic, err)
	}
}

func TestNetworksDoNotMeet(t *testing.T) {
	one, two := newNetwork(t, netns.Options{}), newNetwork(t, netns.Options{})
	var callers, servers [2]*netns.Node
	for i, network := range []*netns.Network{one, two} {
		callers[i], servers[i] = addNode(t, network, "a", "10.66.0.2"), addNode(t, network, "b", "10.66.0.3")
	}
	serve(t, servers[0], ":80")
	if got := get(t, callers[0], "http://10.66.0.3:80/"); got != "10.66.0.2" {
		t.Errorf("b was called by %q, want 10.66.0.2", got)
	}
	if _, err := callers[1].Dial(within(t, 2*time.Second), "tcp", "10.66.0.3:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing the same address in the other network: %v, want connection refused", err)
	}
}

func TestStrayAddressIsRefusedAtOnce(t *testing.T) {
	network := newNetwork(t, netns.Options{})
	a := addNode(t, network, "a", "10.66.0.2")
	_, err := a.Dial(within(t, 2*time.Second), "tcp", "10.96.0.10:9080")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing an address without a listener: %v, want connection refused", err)
	}
}

func TestUnknownNameFails(t *testing.T) {
	a := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	if _, err := a.Dial(within(t, time.Second), "tcp", "nowhere:80"); err == nil || !strings.Contains(err.Error(), `knows no host "nowhere"`) {
		t.Errorf("dialing an unknown name: %v", err)
	}
}

func TestAddNodeRefuses(t *testing.T) {
	network := newNetwork(t, netns.Options{})
	addNode(t, network, "a", "10.66.0.2")
	for want, opts := range map[string]netns.NodeOptions{
		"one of that name": {Name: "a", Addrs: []netip.Addr{netip.MustParseAddr("10.66.0.3")}},
		"no address":       {Name: "b"},
		"in none of":       {Name: "c", Addrs: []netip.Addr{netip.MustParseAddr("10.67.0.3")}},
	} {
		if _, err := network.AddNode(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AddNode(%+v): %v, want an error with %q", opts, err, want)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	netns.Require(t)
	before := openFiles(t)
	network, err := netns.New(netns.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var namespaces []string
	var pids []int
	for i, name := range []string{"a", "b", "c"} {
		node := addNode(t, network, name, fmt.Sprintf("10.66.0.%d", i+2))
		if err := node.Do(func() error {
			ns, err := os.Readlink("/proc/thread-self/ns/net")
			namespaces = append(namespaces, ns)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		// Deaf to SIGTERM, with a child that outlives it and has left its process group.
		p, err := node.Start(netns.Command{Path: "sh", Args: []string{"-c", `trap "" TERM; setsid sleep 1000 & echo $!; sleep 1000`}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.AwaitLine(within(t, 5*time.Second), "\n"); err != nil {
			t.Fatal(err)
		}
		var child int
		if _, err := fmt.Sscan(p.Tail(1), &child); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID(), child)
	}
	if len(holders(namespaces[0])) == 0 {
		t.Fatal("no holder is found for a namespace in use: the test is not effective")
	}
	if err := network.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		awaitGone(t, pid)
	}
	for _, ns := range namespaces {
		deadline := time.Now().Add(5 * time.Second)
		for len(holders(ns)) > 0 && time.Now().Before(deadline) {
			time.Sleep(2 * time.Millisecond) // threads end on their own time
		}
		if h := holders(ns); len(h) > 0 {
			t.Errorf("%s is still held by %v", ns, h)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files open after, %d before", after, before)
	}
	if err := network.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// holders returns the references to a namespace: threads in it, and open descriptors of it.
func holders(ns string) []string {
	var all []string
	for _, pattern := range []string{"/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			if to, _ := os.Readlink(p); to == ns {
				all = append(all, p)
			}
		}
	}
	return all
}
