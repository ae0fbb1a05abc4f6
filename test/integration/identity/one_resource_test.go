package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestAPolicyIsOneResource: when a policy is added, changed or deleted, the proxies of its workload
// are sent one extension, and other proxies nothing.
func TestAPolicyIsOneResource(t *testing.T) {
	dir := t.TempDir()
	grpcAddress := runDiscovery(t, dir)
	web, webToo := follow(t, grpcAddress, "web-1", "10.1.0.1"), follow(t, grpcAddress, "web-2", "10.1.0.2")
	other := follow(t, grpcAddress, "other", "10.1.0.3")
	for _, p := range []*follower{web, webToo, other} {
		p.settle(t)
	}
	for _, path := range []string{"/a", "/b", ""} {
		text := ""
		if path != "" {
			text = "kind: AuthorizationPolicy\napiVersion: security.istio.io/v1\nmetadata: {name: p, namespace: default}\n" +
				"spec: {selector: {matchLabels: {app: web}}, action: DENY, rules: [{to: [{operation: {ports: ['8080'], paths: [" + path + "]}}]}]}\n"
		}
		write(t, filepath.Join(dir, "policy.yaml"), text)
		for _, p := range []*follower{web, webToo} {
			p.want(t, "ECDS "+policiesName)
		}
	}
	if got := other.sent(); len(got) > 0 {
		t.Errorf("the other workload's proxy was sent %q", got)
	}
}

const (
	policiesName = "meshpilot.policies"
	// quiet is how long is waited for what must not come.
	quiet = 150 * time.Millisecond
)

const twoWorkloads = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 90, targetPort: 9000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: default, labels: {app: web}}
status: {podIP: 10.1.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: default, labels: {app: web}}
status: {podIP: 10.1.0.2, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: default, labels: {app: other}}
status: {podIP: 10.1.0.3, phase: Running, conditions: [{type: Ready, status: "True"}]}
`

// runDiscovery runs a control plane that reads a directory, and returns the address of its gRPC port.
func runDiscovery(t *testing.T, dir string) string {
	t.Helper()
	write(t, filepath.Join(dir, "workloads.yaml"), twoWorkloads)
	o := controlplane.Options(t)
	o.ConfigDir = dir
	return controlplane.Start(t, o).GRPC
}

// write puts a file into place at once.
func write(t *testing.T, path, text string) {
	t.Helper()
	staged := filepath.Join(t.TempDir(), "staged")
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, path); err != nil {
		t.Fatal(err)
	}
}

// follower is a proxy that requests clusters, listeners and its policies, accepts all, and records
// the responses.
type follower struct {
	mu   sync.Mutex
	list []string
}

func follow(t *testing.T, address, name, ip string) *follower {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	f, done := new(follower), make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 8) // more than there ever are at once
	requests <- &discoveryv3.DeltaDiscoveryRequest{Node: sidecar.Node(name, "default", ip, map[string]any{"NAMESPACE": "default"}), TypeUrl: api.ClusterType}
	requests <- &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType}
	requests <- &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ExtensionType, ResourceNamesSubscribe: []string{policiesName}}
	go func() {
		for r := range requests {
			_ = stream.Send(r) // Recv returns the error too
		}
	}()
	go func() {
		defer close(done)
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			f.recordResponse(r)
			requests <- &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
		}
	}()
	return f
}

func (f *follower) recordResponse(r *discoveryv3.DeltaDiscoveryResponse) {
	what := api.ShortType(r.TypeUrl)
	if r.TypeUrl == api.ExtensionType {
		for _, one := range r.Resources {
			what += " " + one.Name
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, what)
}

// sent returns the responses since its last call.
func (f *follower) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.list
	f.list = nil
	return list
}

// settle waits until it has everything.
func (f *follower) settle(t *testing.T) {
	t.Helper()
	serving.Eventually(t, effectTime, "all that it asked for", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, what := range []string{"CDS", "LDS", "ECDS " + policiesName} {
			if !slices.Contains(f.list, what) {
				return fmt.Errorf("no %s", what)
			}
		}
		return nil
	})
	time.Sleep(quiet)
	f.sent()
}

// want waits for one response, and fails the test if there is another.
func (f *follower) want(t *testing.T, want string) {
	t.Helper()
	serving.Eventually(t, effectTime, "a response", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.list) == 0 {
			return errors.New("nothing was sent")
		}
		return nil
	})
	time.Sleep(quiet)
	if diff := cmp.Diff([]string{want}, f.sent()); diff != "" {
		t.Fatalf("was sent (-want +got):\n%s", diff)
	}
}
