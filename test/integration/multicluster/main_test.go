package multicluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// shared is the config cluster.
var shared = cluster.NewShared(cluster.Options{GatewayAPI: cluster.Standard, IstioKinds: true})

// other is a remote cluster.
var other = cluster.NewShared(cluster.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(other.Around(m))) }

const patience = 30 * time.Second

// controlPlane is a control plane that runs in the test's process, and reads a cluster.
type controlPlane struct {
	*controlplane.Plane
	t *testing.T
}

// startControlPlane runs a control plane in a namespace of the cluster until the test ends. It is ready when it returns, unless
// change makes it wait for something.
func startControlPlane(t *testing.T, c *cluster.Cluster, namespace string, change func(*discovery.Options)) *controlPlane {
	t.Helper()
	o := controlplane.Options(t)
	o.SecureGRPCAddr = serving.FreeAddress(t)
	o.Namespace, o.PodName = namespace, "istiod-test"
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	change(&o)
	p := &controlPlane{controlplane.Launch(t, o), t}
	p.until("the control plane is ready", patience, p.Ready)
	return p
}

// until waits until check has no error, and returns how long that took.
func (p *controlPlane) until(what string, limit time.Duration, check func() error) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Within(limit, what, check)
	p.t.Logf("%5.1fs until %s", time.Since(began).Seconds(), what)
	return time.Since(began)
}

// says returns a check that the control plane's log has a text.
func (p *controlPlane) says(what string) func() error {
	return func() error { return contains(p.LogText(), what) }
}

func contains(text, what string) error {
	if !strings.Contains(text, what) {
		return fmt.Errorf("the log does not contain %q: %s", what, text)
	}
	return nil
}

// pushes returns how many responses of each type were sent.
func (p *controlPlane) pushes() map[string]int {
	p.t.Helper()
	text, err := p.GetPage("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^pilot_xds_pushes\{type="([a-z]+)"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}
