package apiserver

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// controlPlane is one that runs in the test's process.
type controlPlane struct {
	*controlplane.Plane
	t *testing.T
}

// launch starts a control plane that reads the API server of a client's configuration. It does not wait for it.
func launch(t *testing.T, c *cluster.Cluster, config *rest.Config, change func(*discovery.Options)) *controlPlane {
	t.Helper()
	o := controlplane.Options(t)
	o.MeshConfigFile, o.NetworksConfigFile = filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "absent")
	o.Kubernetes.Kubeconfig = c.KubeconfigOf(t, config)
	o.Namespace = "kube-public" // which exists already
	o.PodName = "istiod-" + filepath.Base(t.TempDir())
	if change != nil {
		change(&o)
	}
	return &controlPlane{controlplane.Launch(t, o), t}
}

func start(t *testing.T, c *cluster.Cluster, config *rest.Config) *controlPlane {
	t.Helper()
	p := launch(t, c, config, nil)
	p.Eventually("ready", p.Ready)
	return p
}

// age returns the metric of the age of the cached cluster state, in seconds.
func (p *controlPlane) age() (float64, error) {
	page, err := p.GetPage("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(page, "\n") {
		if value, ok := strings.CutPrefix(line, `meshpilot_source_age_seconds{source="kubernetes/Kubernetes"} `); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("the metric of the age is missing")
}

// says waits until the log contains a text after the given offset.
func (p *controlPlane) says(from int, text string) {
	p.t.Helper()
	p.Eventually("the log contains "+text, func() error {
		if !strings.Contains(p.LogText()[from:], text) {
			return errors.New("it does not")
		}
		return nil
	})
}

// reads returns the permissions of the source of a control plane, as manifests/charts grants them.
func reads() []rbacv1.PolicyRule {
	follow := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces"}, Verbs: follow},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: follow},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "ingressclasses"}, Verbs: follow},
		{APIGroups: []string{"networking.istio.io", "security.istio.io", "telemetry.istio.io", "extensions.istio.io"}, Resources: []string{"*"}, Verbs: follow},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: follow},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: follow},
	}
}
