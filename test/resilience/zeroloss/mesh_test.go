package zeroloss

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

const (
	// requestTime bounds a request: a longer call is counted as lost.
	requestTime = 10 * time.Second
	// dualAddress and kubeAddress are not declared to the sidecar in front of them.
	dualAddress, kubeAddress = "10.66.1.40", "10.66.1.41"
)

// world is the running mesh with its servers.
type world struct {
	*mesh.Mesh
	dir   string
	state state
	sent  map[string]string // last applied objects, by host
}

// startWorld starts the mesh with the number of control planes of the flag. It ends with the test.
func startWorld(t *testing.T) *world {
	t.Helper()
	return startReplicas(t, *replicas)
}

// startReplicas brings everything up with so many control planes. Workloads are dealt out to them in turn.
func startReplicas(t *testing.T, count int, prepare ...func(bin string)) *world {
	t.Helper()
	netns.Require(t)
	proxy := *proxyProgram
	if proxy == "" {
		proxy = envoy.RequireBinary(t)
	}
	w := &world{dir: t.TempDir(), state: firstState(), sent: map[string]string{}}
	bin := *programs
	if bin == "" {
		bin = filepath.Join(w.dir, "bin")
		if err := build(bin); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range prepare {
		p(bin)
	}
	w.writeMeshConfig(t)
	w.Mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: w.dir, Manifests: w.manifests(t), Progress: t.Logf, Replicas: count,
		AgentEnv: []string{fmt.Sprint("ISTIO_DELTA_XDS=", !*wholeState), fmt.Sprint("MESHPILOT_ON_DEMAND=", *onDemand)},
	})
	w.startServers(t)
	if err := w.apply(); err != nil {
		t.Fatal(err)
	}
	w.awaitAnswers(t)
	return w
}

// awaitAnswers waits until the first rules have arrived everywhere: every lane has an answer.
func (w *world) awaitAnswers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), effectTime)
	defer cancel()
	for _, lane := range w.lanes() {
		if err := eventually(ctx, func() error {
			c := lane.Caller()
			defer c.Close()
			_, err := c.Call(ctx, "first")
			return err
		}); err != nil {
			t.Fatalf("%s: %v", lane.Name, err)
		}
	}
}

// manifests are the pods, and the rules as they are at first: so sidecars are ready with them.
func (w *world) manifests(t *testing.T) fs.FS {
	t.Helper()
	pods, err := testdata.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"pods.yaml": {Data: pods}}
}

// writeMeshConfig writes the mesh configuration to pilot-discovery's default path below its working
// directory.
func (w *world) writeMeshConfig(t *testing.T) {
	t.Helper()
	text, err := testdata.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.dir, "etc", "istio", "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mesh"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(w.dir)
}

// build makes the programs, so that `go test` needs no make before it.
func build(dir string) error {
	if err := meshtest.Build(dir); err != nil {
		return err
	}
	if *controlPlane == "" {
		return nil
	}
	ours := filepath.Join(dir, "pilot-discovery")
	other, err := filepath.Abs(*controlPlane)
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(ours), os.Symlink(other, ours))
}

func (w *world) startServers(t *testing.T) {
	t.Helper()
	for version, more := range map[string][]string{"v1": append(servers(10)[1:], dualAddress, kubeAddress), "v2": nil} {
		node := w.Workload("echo-" + version).Node
		if err := addAddresses(node, more); err != nil {
			t.Fatal(err)
		}
		s, err := echo.NewServer(echo.Options{Listen: node.Listen, Version: version, Ports: []echo.Ports{servicePorts(), rawPorts()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	}
}

// addAddresses returns a node further addresses.
func addAddresses(node *netns.Node, list []string) error {
	return node.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, a := range list {
			addr, err := netlink.ParseAddr(netip.PrefixFrom(netip.MustParseAddr(a), 16).String())
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

// apply brings the rules to the state: the objects of a host in one file, which is renamed into place.
func (w *world) apply() error {
	for _, h := range hosts() {
		text, err := w.state.text(h.name)
		if err != nil {
			return err
		}
		if text == w.sent[h.name] {
			continue
		}
		w.sent[h.name] = text
		staged := filepath.Join(w.dir, "staged.yaml")
		if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(staged, filepath.Join(w.dir, "config", h.name+".yaml")); err != nil {
			return err
		}
	}
	return nil
}
