package registry

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// controlPlane is a whole one at the cluster, in the test's process, and the namespace that the test is about.
type controlPlane struct {
	*testing.T
	*controlplane.Plane
	cluster   *cluster.Cluster
	namespace string // of the test's objects
	system    string // of the control plane
}

// launch starts a control plane with this mesh configuration in its ConfigMap, and waits until it is ready.
func launch(t *testing.T, meshConfig string, change ...func(*discovery.Options)) *controlPlane {
	t.Helper()
	c := shared.Start(t)
	p := &controlPlane{T: t, cluster: c, namespace: c.Namespace(t, "wire", nil), system: c.Namespace(t, "istio-system", nil)}
	p.choose(meshConfig)
	o := controlplane.Options(t)
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	o.Namespace, o.PodName = p.system, "istiod-"+p.system
	o.Revision, o.Authority.Enabled = "default", false
	for _, c := range change {
		c(&o)
	}
	p.Plane = controlplane.Start(t, o)
	return p
}

// page checks that a page has all these texts in it.
func (p *controlPlane) page(path string, texts ...string) func() error {
	return func() error {
		page, err := p.GetPage(path)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return fmt.Errorf("%s has no %q:\n%.4000s", path, text, page)
			}
		}
		return nil
	}
}

// apply creates or changes objects; $NS is replaced by the test's namespace.
func (p *controlPlane) apply(manifests string) {
	p.Helper()
	if err := p.cluster.Apply(p.Context(), strings.ReplaceAll(manifests, "$NS", p.namespace)); err != nil {
		p.Fatal(err)
	}
}

// choose writes the mesh's ConfigMap.
func (p *controlPlane) choose(meshConfig string) {
	p.Helper()
	p.apply(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio, namespace: %s}, data: {mesh: %q}}", p.system, meshConfig))
}

// connect connects a sidecar of the test's namespace, or of another.
func (p *controlPlane) connect(name, namespace, ip string) *sidecar.Proxy {
	p.Helper()
	return sidecar.Connect(p, p.GRPC, sidecar.Node(name, namespace, ip, map[string]any{"CLUSTER_ID": "Kubernetes", "NAMESPACE": namespace, "ISTIO_VERSION": "1.29.0"}))
}

// outbound names the cluster of a service's port.
func (p *controlPlane) outbound(port int, name string) string {
	return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port, name, p.namespace)
}

// addresses checks the endpoints that a sidecar has of a cluster.
func addresses(x *sidecar.Proxy, cluster string, want ...string) func() error {
	return func() error {
		if diff := cmp.Diff(want, x.Addresses(cluster)); diff != "" {
			return fmt.Errorf("endpoints of %s (-want +got):\n%s", cluster, diff)
		}
		return nil
	}
}

// leads checks that a sidecar has a route to a cluster.
func leads(x *sidecar.Proxy, routes, cluster string) func() error {
	return func() error {
		r := new(routev3.RouteConfiguration)
		if x.Read(api.RouteType, routes, r); !strings.Contains(r.String(), cluster) {
			return fmt.Errorf("no route of %s leads to %s: %v", routes, cluster, r)
		}
		return nil
	}
}

// has checks that a sidecar has a resource, or that it has none.
func has(x *sidecar.Proxy, typeURL, name string, want bool) func() error {
	return func() error {
		for _, n := range x.ResourceNames(typeURL) {
			if n == name {
				if want {
					return nil
				}
				return fmt.Errorf("%s exists", name)
			}
		}
		if want {
			return fmt.Errorf("%s is not there", name)
		}
		return nil
	}
}

func all(checks ...func() error) func() error {
	return func() error {
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}
}
