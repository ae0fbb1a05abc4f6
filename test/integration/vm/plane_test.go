package vm

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const meshSettings = "{trustDomain: cluster.local}"

// plane is a control plane in its own node, with the way to change the objects of its mesh.
type plane struct {
	t       *testing.T
	node    *netns.Node
	command netns.Command
	process *netns.Process
	// apply adds or replaces objects, or removes the one that the name is of.
	apply func(name, manifests string)
	// published reports whether workloads can be configured yet; nil: they can.
	published func() error
	// which are the flags of pilotctl that select the mesh.
	which []string
}

func (p *plane) start() {
	p.t.Helper()
	var err error
	if p.process, err = p.node.Start(p.command); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := p.process.AwaitOK(ctx, "http://127.0.0.1:8080/ready"); err != nil {
		p.t.Fatalf("%v\n%s", err, p.process.Tail(30))
	}
	if p.published != nil {
		serving.Eventually(p.t, patience, "the mesh's roots", p.published)
	}
}

func (p *plane) stop() {
	p.t.Helper()
	if err := p.process.Stop(15 * time.Second); err != nil {
		p.t.Error(err)
	}
}

func newPlane(t *testing.T, network *netns.Network, args ...string) *plane {
	t.Helper()
	node, err := network.AddNode(netns.NodeOptions{Name: "istiod", Addrs: []netip.Addr{planeAddress}})
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, node: node, command: netns.Command{
		Name: "pilot-discovery", Path: executable(t, "pilot-discovery"),
		Args: append([]string{"discovery", "--httpsAddr", "", "--ctrlz_port", "0"}, args...),
		Env:  []string{"POD_NAME=istiod", "POD_NAMESPACE=istio-system", "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD=3s"},
	}}
	t.Cleanup(func() {
		if t.Failed() && p.process != nil {
			t.Logf("the end of the control plane's log:\n%s", p.process.Tail(40))
		}
	})
	return p
}

// filePlane is a mesh without Kubernetes.
func filePlane(t *testing.T, network *netns.Network) *plane {
	dir := t.TempDir()
	config, ca, mesh := filepath.Join(dir, "config"), filepath.Join(dir, "ca"), filepath.Join(dir, "mesh")
	if err := os.Mkdir(config, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mesh, []byte(meshSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlane(t, network, "--configDir", config, "--registries=", "--caDir", ca, "--meshConfig", mesh)
	p.which = []string{"--caDir", ca, "--meshConfig", mesh}
	p.apply = func(name, manifests string) {
		t.Helper()
		staged := filepath.Join(dir, name+".staged")
		if err := os.WriteFile(staged, []byte(manifests), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(staged, filepath.Join(config, name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// kubernetesPlane is a mesh with an API server.
func kubernetesPlane(t *testing.T, network *netns.Network) *plane {
	c := cluster.Start(t, cluster.Options{IstioKinds: true})
	p := newPlane(t, network, "--kubeconfig", c.Kubeconfig())
	lead(t, p.node, c.Config())
	client := c.Client(t)
	for _, name := range []string{"istio-system", "shop", "vms"} {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, account := range [][2]string{{"shop", "shop"}, {"vms", "vm"}} {
		if _, err := client.CoreV1().ServiceAccounts(account[0]).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account[1]}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps("istio-system").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio"}, Data: map[string]string{"mesh": meshSettings},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.which = []string{"--kubeconfig", c.Kubeconfig()}
	p.published = func() error {
		for _, namespace := range []string{"shop", "vms"} {
			if _, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	p.apply = func(_, manifests string) {
		t.Helper()
		if err := c.Apply(t.Context(), manifests); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// lead makes the API server, which is on the loopback address outside of all nodes, reachable at the same address in one.
func lead(t *testing.T, node *netns.Node, config *rest.Config) {
	t.Helper()
	address := strings.TrimPrefix(config.Host, "https://")
	l, err := node.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			inner, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer inner.Close()
				outer, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer outer.Close()
				go func() {
					_, _ = io.Copy(outer, inner)
					_ = outer.Close()
				}()
				_, _ = io.Copy(inner, outer)
			}()
		}
	}()
}
