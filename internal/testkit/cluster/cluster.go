package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Cluster is one that is up.
type Cluster struct {
	options  Options
	dir      string // of its state
	ownDir   bool   // it goes when the cluster does
	programs *Programs
	keys     *keys
	admin    *rest.Config
	net      network
	ports    *ports
	keeper   *keeper
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

// Up brings a cluster up, and waits until it is ready. It fails when a program cannot be built, ends, or does not get ready
// in time, and then leaves nothing.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if o.Output == nil {
		o.Output = func(string, ...any) {}
	}
	c := &Cluster{options: o, began: time.Now()}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bring a cluster up: %w", err), c.Down())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context) (err error) {
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
	c.net = loopbackNetwork()
	if c.keeper, err = newKeeper(nil); err != nil {
		return err
	}
	if c.ports, err = reservePorts(netip.MustParseAddr("127.0.0.1")); err != nil {
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
	c.say("the API server is ready")
	if err := c.InstallCRDs(ctx, crds...); err != nil {
		return err
	}
	c.say("kinds are installed")
	if c.options.Tier == API {
		return nil
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	c.say("the controllers work")
	return nil
}

func (c *Cluster) say(format string, args ...any) {
	c.options.Output("%5.1fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
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
	return os.MkdirAll(c.file("logs"), 0o755)
}

func (c *Cluster) makeKeys() (err error) {
	if c.keys, err = newKeys(c.file("keys")); err != nil {
		return err
	}
	const service = "kubernetes.default.svc"
	if err := c.keys.server("kube-apiserver", []string{"127.0.0.1", "10.96.0.1"},
		"localhost", "kubernetes", "kubernetes.default", service, service+".cluster.local"); err != nil {
		return err
	}
	c.admin = c.keys.userConfig(c.apiAddress(), "admin", "system:masters")
	return WriteKubeconfig(c.Kubeconfig(), c.admin)
}

// Config is that of an administrator's client. The caller may change it.
func (c *Cluster) Config() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.file("admin.kubeconfig") }

// Down ends all processes and removes the cluster's state, unless Options named its place.
func (c *Cluster) Down() error {
	// Kubernetes first: each writes into the one after it.
	c.controllers.kill()
	c.apiServer.kill()
	c.etcd.kill()
	if c.keeper != nil {
		c.keeper.close()
	}
	if c.ports != nil {
		c.ports.release()
	}
	if !c.ownDir {
		return nil
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the cluster's state: %w", err)
	}
	return nil
}
