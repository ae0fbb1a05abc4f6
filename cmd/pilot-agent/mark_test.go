package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const mark = 1337

// TestSocketMark tests on a host that only permits marked connections that a marked Envoy reaches
// its control plane and the service of a cluster. An unmarked one reaches nothing.
func TestSocketMark(t *testing.T) {
	t.Parallel()
	netns.Require(t)
	network := newNetwork(t)
	far := node(t, network, "far", "10.66.1.1")
	newControlPlane(t, listenOn(t, far, 15010),
		cluster("far", "10.66.1.1", 80), listener(t, corev3.TrafficDirection_OUTBOUND, "127.0.0.1", 9080, "out", "far"))
	serve(t, listenOn(t, far, 80), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, test := range []struct {
		name, ip string
		env      []string
		reaches  bool
	}{
		{"marked", "10.66.1.2", []string{fmt.Sprintf("MESHPILOT_SOCKET_MARK=%d", mark)}, true},
		{"unmarked", "10.66.1.3", nil, false},
	} {
		pod := node(t, network, test.name, test.ip)
		if err := pod.Do(onlyMarked); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "proxy")
		process := startIn(t, pod, dir, test.env)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if !test.reaches {
			// Refused, not just slow.
			check(t, process.AwaitLine(ctx, "cannot connect to the control plane"))
			continue
		}
		check(t, process.AwaitOK(ctx, "http://127.0.0.1:15021/healthz/ready"))
		check(t, process.AwaitOK(ctx, "http://127.0.0.1:9080/"))
		if t.Failed() {
			t.Log(process.Tail(40))
		}
	}
}

func newNetwork(t *testing.T) *netns.Network {
	t.Helper()
	network, err := netns.New(netns.Options{Dir: t.TempDir()})
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

func node(t *testing.T, network *netns.Network, name, ip string) *netns.Node {
	t.Helper()
	n, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(ip)}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func listenOn(t *testing.T, n *netns.Node, port int) net.Listener {
	t.Helper()
	l, err := n.Listen("tcp", fmt.Sprintf("%s:%d", n.Addr(), port))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startIn starts an agent with the default ports in a node. It ends with the network.
func startIn(t *testing.T, n *netns.Node, dir string, env []string) *netns.Process {
	t.Helper()
	a := &agent{status: 15020, admin: 15000, ready: 15021, metrics: 15090}
	s := settings{config: map[string]any{"discoveryAddress": "10.66.1.1:15010", "configPath": dir}, env: env}
	s.useRealEnvoy(t)
	process, err := n.Start(
		netns.Command{
			Name: "agent",
			Path: os.Args[0],
			Args: []string{"proxy", "sidecar"},
			Dir:  t.TempDir(),
			Env:  environ(t, s, a),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return process
}

// onlyMarked makes the host refuse outgoing connections except for sockets with the mark.
func onlyMarked() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "test"})
	chain := c.AddChain(&nftables.Chain{
		Name:     "output",
		Table:    table,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityFilter,
	})
	accept := func(key expr.MetaKey, data []byte) {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: key, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
	}
	loopback := make([]byte, unix.IFNAMSIZ)
	copy(loopback, "lo")
	accept(expr.MetaKeyOIFNAME, loopback)
	accept(expr.MetaKeyMARK, binaryutil.NativeEndian.PutUint32(mark))
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED},
	}})
	return c.Flush()
}
