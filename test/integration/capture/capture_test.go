package capture

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const services = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop.example.com]
  addresses: [10.97.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 8080, protocol: HTTP}, {name: tcp, number: 9090, protocol: TCP}]
  endpoints: [{address: 10.66.1.1}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: DISABLE}}
`

var (
	planeAddress   = netip.MustParseAddr("10.66.0.2")
	serviceAddress = netip.MustParseAddr("10.97.0.1")
	webAddresses   = []netip.Addr{netip.MustParseAddr("10.66.1.1"), netip.MustParseAddr("fd00:66::1:1")}
	otherAddresses = []netip.Addr{netip.MustParseAddr("10.66.2.1"), netip.MustParseAddr("fd00:66::2:1")}
)

// Users and capabilities with which an agent, and so its Envoy, may run.
var (
	user = identity{"--reuid=1337", "--regid=1337", "--clear-groups"}
	// root is the user that Istio's injector sets for a proxy with TPROXY.
	root = identity{"--regid=1337", "--clear-groups"}
	// capable is a user with only the capabilities that TPROXY needs.
	capable = append(append(identity{}, user...), "--inh-caps=+net_admin", "--ambient-caps=+net_admin")
)

// TestClientAddresses checks which client address applications see: for calls of a pod from outside
// the mesh, calls from it, and calls of it to itself.
func TestClientAddresses(t *testing.T) {
	netns.Require(t)
	netns.RequireUID(t, 1337)
	b := build(t)
	for _, c := range []struct {
		name, mode string
		as         identity
		flags      []string
		// clients are the addresses that the application sees for an outside client, over IPv4 and IPv6.
		clients [2]string
	}{
		{"REDIRECT", "REDIRECT", user, nil, [2]string{"127.0.0.6", "::6"}},
		{"REDIRECT by nftables", "REDIRECT", user, []string{"--native-nftables"}, [2]string{"127.0.0.6", "::6"}},
		{"TPROXY", "TPROXY", root, nil, [2]string{"10.66.2.1", "fd00:66::2:1"}},
		{"TPROXY by nftables, without root", "TPROXY", capable, []string{"--native-nftables"}, [2]string{"10.66.2.1", "fd00:66::2:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			network := newMesh(t, b)
			web, other := newPod(t, b, network, "web", webAddresses), newPod(t, b, network, "other", otherAddresses)
			web.capture(append([]string{"-m", c.mode}, c.flags...)...)
			web.startAgent(c.as, c.mode)
			for i, want := range c.clients {
				expect(t, "from outside, by HTTP", "web was called by "+want+" through a proxy")(other.get(webAddresses[i]))
				expect(t, "from outside, by TCP", "web was called by "+want)(other.connect(webAddresses[i]))
				expect(t, "to outside", "other was called by "+webAddresses[i].String()+" through a proxy")(web.get(otherAddresses[i]))
				expect(t, "to itself, without a service", "web was called by "+webAddresses[i].String()+" through nobody")(web.get(webAddresses[i]))
			}
			self := "10.66.1.1"
			if c.mode == "REDIRECT" {
				self = "127.0.0.6"
			}
			expect(t, "to itself, by its service", "web was called by "+self+" through a proxy")(web.get(serviceAddress))
		})
	}
}

func expect(t *testing.T, what, want string) func(string, error) {
	return func(got string, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: got %q (error %v), want %q", what, got, err, want)
		}
	}
}

// newMesh makes a network with a control plane.
func newMesh(t *testing.T, b binaries) *netns.Network {
	t.Helper()
	network, err := netns.New(netns.Options{
		Dir:      t.TempDir(),
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.66.0.0/16"), netip.MustParsePrefix("fd00:66::/64")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	node, err := network.AddNode(netns.NodeOptions{Name: "istiod", Addrs: []netip.Addr{planeAddress}})
	if err != nil {
		t.Fatal(err)
	}
	config := t.TempDir()
	if err := os.WriteFile(filepath.Join(config, "mesh.yaml"), []byte(services), 0o600); err != nil {
		t.Fatal(err)
	}
	plane, err := node.Start(netns.Command{
		Path: b.discovery, Args: []string{"discovery", "--grpcAddr", ":15010", "--httpsAddr", "", "--ctrlz_port", "0", "--configDir", config, "--registries="},
		Env: []string{"POD_NAME=istiod", "POD_NAMESPACE=istio-system", "ISTIO_DUAL_STACK=true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the control plane's log:\n%s", plane.Tail(20))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := plane.AwaitOK(ctx, "http://127.0.0.1:8080/ready"); err != nil {
		t.Fatalf("%v\n%s", err, plane.Tail(30))
	}
	return network
}
