package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// Cluster is a running cluster.
type Cluster struct {
	options  Options
	dir      string // of its state
	ownDir   bool   // it is removed with the cluster
	programs *Programs
	keys     *keys
	admin    *rest.Config
	net      network
	ports    *ports
	thread   *osthread.Thread // starts everything; in the node's namespaces if there is a node
	node     *node            // nil without one
	began    time.Time

	etcd, apiServer, controllers *process
}

// Start brings a cluster up until the test ends.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Output == nil {
		o.Output = t.Logf
	}
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Up brings a cluster up, and waits until it is ready. It fails when a program cannot be built,
// ends, or does not get ready in time, and then leaves nothing.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if o.Output == nil {
		o.Output = func(string, ...any) {}
	}
	c := &Cluster{options: o, began: time.Now()}
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bring a cluster up: %w", err), c.Down())
	}
	return c, nil
}

func (c *Cluster) bringUp(ctx context.Context) (err error) {
	if c.programs, err = FindPrograms(c.options.Output); err != nil {
		return err
	}
	crds, err := crdFiles(ctx, c.options)
	if err != nil {
		return err
	}
	if err := c.makeDir(); err != nil {
		return err
	}
	if c.net, err = networkOf(c.options); err != nil {
		return err
	}
	if err := c.makePlace(); err != nil {
		return err
	}
	if err := c.makeKeys(); err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	c.reportProgress("the API server is ready")
	if c.options.Tier >= Controllers {
		if err := c.startControllers(ctx); err != nil {
			return err
		}
	}
	if c.options.Tier >= Node {
		if err := c.startNode(ctx); err != nil {
			return err
		}
	}
	if err := c.InstallCRDs(ctx, crds...); err != nil {
		return err
	}
	c.reportProgress("kinds are installed")
	if c.options.Tier >= Controllers {
		if err := c.awaitControllers(ctx); err != nil {
			return err
		}
		c.reportProgress("the controllers work")
	}
	if c.options.Tier >= Node {
		if err := c.awaitNode(ctx); err != nil {
			return err
		}
		c.reportProgress("the node and its DNS are ready")
	}
	return nil
}

// makePlace makes the thread that starts processes, in the node's namespaces if the cluster has a
// node, and reserves ports.
func (c *Cluster) makePlace() (err error) {
	if c.net.hasNode() {
		if c.node, err = newNode(c.net); err != nil {
			return err
		}
		c.thread = c.node.thread
		c.ports, err = c.node.reservePorts()
		return err
	}
	if c.thread, err = osthread.New(nil); err != nil {
		return err
	}
	c.ports, err = reservePorts()
	return err
}

// reportProgress prints a progress message with the time.
func (c *Cluster) reportProgress(what string) {
	c.options.Output("%5.1fs  %s", time.Since(c.began).Seconds(), what)
}

func (c *Cluster) makeDir() (err error) {
	if c.dir = c.options.Dir; c.dir == "" {
		c.ownDir = true
		if c.dir, err = os.MkdirTemp("", "meshpilot-cluster-"); err != nil {
			return err
		}
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	return os.MkdirAll(c.filePath("logs"), 0o755)
}

func (c *Cluster) makeKeys() (err error) {
	if c.keys, err = newKeys(c.filePath("keys")); err != nil {
		return err
	}
	const service = "kubernetes.default.svc"
	if err := c.keys.writeServingPair("kube-apiserver", c.net.certifiedAddresses(),
		"localhost", "kubernetes", "kubernetes.default", service, service+".cluster.local"); err != nil {
		return err
	}
	if c.net.hasNode() {
		if err := c.keys.writeServingPair(nodeName, toTexts(c.net.nodes), nodeName); err != nil {
			return err
		}
	}
	admin := c.keys.userPair("admin", "system:masters")
	if err := admin.WriteFiles(c.keys.filePath("admin.crt"), c.keys.filePath("admin.key")); err != nil {
		return err
	}
	c.admin = c.keys.restConfig(c.apiAddress())
	c.admin.CertData, c.admin.KeyData = admin.CertificatePEM(), admin.KeyPEM()
	return WriteKubeconfig(c.Kubeconfig(), c.admin)
}

// innerAddress is where the cluster's own programs find the API server, apiAddress where all others
// do.
func (c *Cluster) innerAddress() string { return c.ports.api.portAddress() }

func (c *Cluster) apiAddress() string {
	if c.node != nil {
		return c.node.door.Address()
	}
	return c.innerAddress()
}

// Config is that of an administrator's client. The caller may change it.
func (c *Cluster) Config() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// NodeConfig is that of an administrator's client that runs in the node's network (see NodePID).
func (c *Cluster) NodeConfig() *rest.Config {
	config := c.Config()
	config.Host = c.keys.restConfig(c.innerAddress()).Host
	return config
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.filePath("admin.kubeconfig") }

// Dir returns the directory of the cluster's state: keys, data, and in "logs" the logs of its
// programs.
func (c *Cluster) Dir() string { return c.dir }

// Programs are the programs of the cluster.
func (c *Cluster) Programs() *Programs { return c.programs }

// Down ends all processes and removes the cluster's state, unless Options named its place.
func (c *Cluster) Down() error {
	var errs []error
	if c.node != nil {
		errs = append(errs, c.node.stopKubelet())
	}
	// Each writes into the one after it.
	c.controllers.killNow()
	c.apiServer.killNow()
	c.etcd.killNow()
	if c.thread != nil {
		c.thread.Close()
	}
	if c.ports != nil {
		c.ports.releaseAll()
	}
	if c.node != nil {
		errs = append(errs, c.node.closeNetwork())
	}
	if c.ownDir {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take the cluster down: %w", err)
	}
	return nil
}
