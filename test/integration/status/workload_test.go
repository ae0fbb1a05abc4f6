package status

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const group = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms}
spec:
  metadata: {labels: {app: vm}}
  template: {serviceAccount: vm, ports: {http: 8080}}
  probe: {httpGet: {port: 8080}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms}
spec:
  hosts: [vms.example.com]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}]
  workloadSelector: {labels: {app: vm}}
`

const grace = 2 * time.Second

func unauthenticated(o *discovery.Options) {
	o.Workloads.AllowAnyIdentity, o.Workloads.AllowPlaintext, o.Workloads.Grace = true, true, grace
}

// endpoints returns what a control plane serves for the service of the group: "address health".
func (r *replica) endpoints() string {
	r.l.Helper()
	text, err := r.GetPage("/debug/endpointz")
	if err != nil {
		r.l.Fatal(err)
	}
	return text
}

func (l *lab) workloadEntry() (*unstructured.Unstructured, error) {
	return l.client.Dynamic.Resource(resource(l, "WorkloadEntry")).Namespace(l.shop).Get(l.Context(), "vms-10.9.0.7", metav1.GetOptions{})
}

func TestWorkloadRegistersItself(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	l.apply(group)
	a, b := l.replica("pilot-a", unauthenticated), l.replica("pilot-b", unauthenticated)
	metadata := map[string]any{
		"AUTO_REGISTER_GROUP": "vms", "LABELS": map[string]any{"version": "v1"},
		"PROXY_CONFIG": map[string]any{"readinessProbe": map[string]any{"httpGet": map[string]any{"port": 8080}}},
	}
	vm := a.connect("vm-7", "10.9.0.7", metadata)
	var e *unstructured.Unstructured
	l.eventually("the entry", func() (err error) { e, err = l.workloadEntry(); return err })
	uid := e.GetUID()
	if e.GetLabels()["app"] != "vm" || e.GetLabels()["version"] != "v1" || e.GetAnnotations()["istio.io/workloadController"] != "pilot-a" {
		t.Errorf("labels %v, annotations %v", e.GetLabels(), e.GetAnnotations())
	}
	if len(e.GetOwnerReferences()) != 1 || e.GetOwnerReferences()[0].Kind != "WorkloadGroup" {
		t.Errorf("owners %v", e.GetOwnerReferences())
	}
	l.waitFor(e, "True") // its condition is written beside the health

	served := func(r *replica) error {
		if !strings.Contains(r.endpoints(), "10.9.0.7") {
			return errors.New("10.9.0.7 is no endpoint")
		}
		return nil
	}
	vm.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/istio.v1.HealthInformation"})
	l.eventually("the endpoint of a healthy workload", func() error { return errors.Join(served(a), served(b)) })
	vm.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: "type.googleapis.com/istio.v1.HealthInformation", ErrorDetail: &rpcstatus.Status{Message: "connection refused"},
	})
	l.eventually("its health is reported", func() error {
		e, err := l.workloadEntry()
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
		if text := fmt.Sprint(list); !strings.Contains(text, "connection refused") || !strings.Contains(text, "Reconciled") {
			return fmt.Errorf("conditions %s", text)
		}
		return nil
	})

	t.Log("It moves to the other replica within the grace period.")
	vm.Leave()
	l.eventually("that it has left", func() error {
		e, err := l.workloadEntry()
		if err == nil && e.GetAnnotations()["istio.io/disconnectedAt"] == "" {
			err = fmt.Errorf("annotations %v", e.GetAnnotations())
		}
		return err
	})
	vm = b.connect("vm-7", "10.9.0.7", metadata)
	vm.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/istio.v1.HealthInformation"})
	l.eventually("that it is here", func() error {
		e, err := l.workloadEntry()
		if err == nil && (e.GetAnnotations()["istio.io/disconnectedAt"] != "" || e.GetAnnotations()["istio.io/workloadController"] != "pilot-b") {
			err = fmt.Errorf("annotations %v", e.GetAnnotations())
		}
		return err
	})
	a.Stop() // its memory must not be needed
	time.Sleep(grace + time.Second)
	if e, err := l.workloadEntry(); err != nil || e.GetUID() != uid {
		t.Fatalf("it has another entry, or none: %v", err)
	}
	l.eventually("the endpoint", func() error { return served(b) })

	t.Log("It disconnects permanently.")
	vm.Leave()
	l.eventually("its entry is deleted", func() error {
		_, err := l.workloadEntry()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it was not deleted"), err)
	})
	l.eventually("the endpoint is removed", func() error {
		if served(b) == nil {
			return errors.New("it still exists")
		}
		return nil
	})
}

func TestUnauthenticatedProxyDoesNotRegister(t *testing.T) {
	l := newLab(t)
	l.apply(group)
	a := l.replica("pilot-a", nil)
	vm := sidecar.Node("vm-7", l.shop, "10.9.0.7", map[string]any{"AUTO_REGISTER_GROUP": "vms"})
	if err := sidecar.ConnectRejected(t, a.GRPC, vm); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := l.workloadEntry(); !apierrors.IsNotFound(err) {
		t.Errorf("the entry still exists, error %v", err)
	}
}

// Without an API server entries are in memory.
func TestWorkloadRegistersItselfWithoutAnAPIServer(t *testing.T) {
	l := &lab{T: t, system: "istio-system", shop: "shop"}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "vms.yaml"), []byte(strings.ReplaceAll(group, "{name: vms}", "{name: vms, namespace: shop}")), 0o600); err != nil {
		t.Fatal(err)
	}
	a := l.replica("pilot-a", func(o *discovery.Options) {
		unauthenticated(o)
		o.Kubernetes, o.Registries, o.ConfigDir = options.Kubernetes{}, nil, dir
	})
	vm := a.connect("vm-7", "10.9.0.7", map[string]any{"AUTO_REGISTER_GROUP": "vms"})
	l.eventually("the endpoint", func() error {
		if !strings.Contains(a.endpoints(), "10.9.0.7") {
			return errors.New("it is not there")
		}
		return nil
	})
	vm.Leave()
	l.eventually("the endpoint is removed", func() error {
		if strings.Contains(a.endpoints(), "10.9.0.7") {
			return errors.New("it still exists")
		}
		return nil
	})
}
