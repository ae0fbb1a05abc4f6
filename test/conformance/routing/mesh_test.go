package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netlink"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// backendAddress is the first of the node that all instances are at.
const backendAddress = "10.66.2.1"

// backendPorts are where instances listen.
func backendPorts() []uint16 {
	return []uint16{80, 443, 3000, 7070, 8080, 8081, 9000, 9090, backend.GreetingPort}
}

// world is the running mesh.
type world struct {
	*scene
	mesh   *mesh.Mesh
	memory *backend.Memory
	nodes  map[string]*netns.Node // by caller
	dir    string
}

// startWorld brings everything up; it ends with the test.
func startWorld(t *testing.T, s *scene) *world {
	t.Helper()
	netns.Require(t)
	proxy := envoy.RequireBinary(t)
	w := &world{scene: s, memory: backend.NewMemory(), nodes: map[string]*netns.Node{}, dir: t.TempDir()}
	bin := *programs
	if bin == "" {
		bin = filepath.Join(w.dir, "bin")
		if err := meshtest.Build(bin); err != nil {
			t.Fatal(err)
		}
	}
	w.writeMeshConfig(t)
	w.mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: w.dir, Manifests: w.manifests(t), Hosts: s.table.Hosts, Progress: t.Logf,
		ControlPlaneArgs: []string{"--secretsPlainText=anyone"}, // gateways have no certificates with which they could request others
	})
	w.startBackends(t)
	return w
}

// manifests are the pods that run, and beside them, for the control plane alone, everything else.
func (w *world) manifests(t *testing.T) fs.FS {
	t.Helper()
	var run, rest [][]byte
	for i, text := range bytes.Split(w.table.Objects(), []byte("\n---\n")) {
		doc, err := dated(text, i)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if w.runs(doc) {
			run = append(run, doc)
		} else {
			rest = append(rest, doc)
		}
	}
	join := func(docs [][]byte) *fstest.MapFile { return &fstest.MapFile{Data: bytes.Join(docs, []byte("\n---\n"))} }
	return fstest.MapFS{"callers.yaml": join(run), "objects/all.yaml": join(rest)}
}

// dated returns each object the age that package fixture returns it: which one is older decides between rivals.
func dated(text []byte, i int) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("an object without metadata")
	}
	meta["creationTimestamp"] = time.Unix(int64(1000+i), 0).UTC().Format(time.RFC3339)
	return json.Marshal(object)
}

// runs reports whether a document is the pod of a caller with a sidecar.
func (w *world) runs(doc []byte) bool {
	return slices.ContainsFunc(w.table.Callers, func(c *table.Caller) bool {
		return !c.Bare && bytes.Contains(doc, fmt.Appendf(nil, `"podIP":%q`, c.Address))
	})
}

// writeMeshConfig writes the mesh configuration to pilot-discovery's default path below its working
// directory.
func (w *world) writeMeshConfig(t *testing.T) {
	t.Helper()
	dir := filepath.Join(w.dir, "etc", "istio", "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mesh"), w.table.MeshConfig, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(w.dir)
}

// startBackends starts the node of all instances, the applications of callers that serve, and the node outside the mesh.
func (w *world) startBackends(t *testing.T) {
	t.Helper()
	addresses := []netip.Addr{netip.MustParseAddr(backendAddress)}
	own := map[netip.Addr]bool{}
	for _, c := range w.table.Callers {
		own[c.Address] = true
		if !c.Bare {
			w.nodes[c.Name] = w.mesh.Workload(c.Name).Node
			w.serve(t, w.nodes[c.Name], c.Serves)
			continue
		}
		node, err := w.mesh.Network.AddNode(netns.NodeOptions{Name: c.Name, Addrs: []netip.Addr{c.Address}})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[c.Name] = node
	}
	node, err := w.mesh.Network.AddNode(netns.NodeOptions{Name: "backend", Addrs: addresses})
	if err != nil {
		t.Fatal(err)
	}
	var more []netip.Addr
	for _, a := range w.table.Instances {
		if !own[a] && a.Is4() {
			more = append(more, a)
		}
	}
	if err := addAddresses(node, more); err != nil {
		t.Fatal(err)
	}
	w.serve(t, node, backendPorts())
}

func (w *world) serve(t *testing.T, node *netns.Node, ports []uint16) {
	t.Helper()
	if len(ports) == 0 {
		return
	}
	s, err := backend.New(node.Listen, w.memory, ports...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
}

// addAddresses returns a node further addresses.
func addAddresses(node *netns.Node, list []netip.Addr) error {
	return node.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, a := range list {
			addr, err := netlink.ParseAddr(netip.PrefixFrom(a, 16).String())
			if err == nil {
				err = netlink.AddrAdd(link, addr)
			}
			if err != nil {
				return fmt.Errorf("adding %s to %s: %w", a, node.Name(), err)
			}
		}
		return nil
	})
}
