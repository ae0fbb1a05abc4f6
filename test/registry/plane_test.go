package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/testkit/cluster"
	"github.com/meshpilot/meshpilot/internal/testkit/sidecar"
)

// plane is a whole control plane at the cluster, in the test's process, and the namespace that the test is about.
type plane struct {
	*testing.T
	cluster    *cluster.Cluster
	http, grpc string
	namespace  string // of the test's objects
	system     string // of the control plane
	log        *syncBuffer
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// launch starts a control plane with this mesh configuration in its ConfigMap, and waits until it is ready.
func launch(t *testing.T, meshConfig string) *plane {
	t.Helper()
	c := shared.Start(t)
	p := &plane{T: t, cluster: c, http: freeAddress(t), grpc: freeAddress(t), log: new(syncBuffer),
		namespace: c.Namespace(t, "wire", nil), system: c.Namespace(t, "istio-system", nil)}
	p.choose(meshConfig)
	o := discovery.Defaults()
	o.GRPCAddr, o.HTTPAddr = p.grpc, p.http
	o.SecureGRPCAddr, o.HTTPSAddr, o.MonitoringAddr, o.ControlZPort = "", "", "", 0
	o.MeshConfigFile, o.NetworksConfigFile = "", ""
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	o.Namespace, o.PodName = p.system, "istiod-"+p.system
	o.Revision, o.Authority.Off = "default", true
	o.Logs.Out = p.log
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- discovery.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", p.log)
		}
	})
	p.eventually("ready", func() error { _, err := p.get("/ready"); return err })
	return p
}

func (p *plane) get(path string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + p.http + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, r.Status, body)
	}
	return string(body), err
}

// eventually tries until there is no error.
func (p *plane) eventually(what string, try func() error) {
	p.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s: %v", what, err)
		}
	}
}

// page checks that a page has all these texts in it.
func (p *plane) page(path string, texts ...string) func() error {
	return func() error {
		page, err := p.get(path)
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

// apply makes or changes objects; $NS stands for the test's namespace.
func (p *plane) apply(manifests string) {
	p.Helper()
	if err := p.cluster.Apply(p.Context(), strings.ReplaceAll(manifests, "$NS", p.namespace)); err != nil {
		p.Fatal(err)
	}
}

// choose writes the mesh's ConfigMap.
func (p *plane) choose(meshConfig string) {
	p.Helper()
	p.apply(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio, namespace: %s}, data: {mesh: %q}}", p.system, meshConfig))
}

// connect connects a sidecar of the test's namespace, or of another.
func (p *plane) connect(name, namespace, ip string) *sidecar.Proxy {
	p.Helper()
	return sidecar.Connect(p, p.grpc, sidecar.Node(name, namespace, ip, map[string]any{"CLUSTER_ID": "Kubernetes", "NAMESPACE": namespace, "ISTIO_VERSION": "1.29.0"}))
}

// outbound names the cluster of a service's port.
func (p *plane) outbound(port int, name string) string {
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

// has checks that a sidecar has a resource, or that it has none.
func has(x *sidecar.Proxy, typeURL, name string, want bool) func() error {
	return func() error {
		for _, n := range x.Names(typeURL) {
			if n == name {
				if want {
					return nil
				}
				return fmt.Errorf("%s is there", name)
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
