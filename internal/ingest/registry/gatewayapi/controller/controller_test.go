package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/gateway"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// objects are Gateways with all fields that their Spec depends on.
const objects = `
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: ours}
spec:
  controllerName: istio.io/gateway-controller
  parametersRef: {group: "", kind: ConfigMap, name: defaults, namespace: mesh-system}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: other-parameters}
spec:
  controllerName: istio.io/gateway-controller
  parametersRef: {group: example.com, kind: ConfigMap, name: defaults, namespace: mesh-system}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: ours
  addresses: [{type: IPAddress, value: 192.0.2.1}, {type: IPAddress, value: "2001:db8::1"}]
  infrastructure: {labels: {team: web}}
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 9000, protocol: TCP}]
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: named, namespace: shop, annotations: {gateway.istio.io/name-override: front}}
spec: {gatewayClassName: other-parameters, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: remote, namespace: shop}
spec: {gatewayClassName: istio-remote, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// newConverter returns a Converter that has read the objects.
func newConverter(t *testing.T) *gatewayapi.Converter {
	t.Helper()
	list, err := fixture.Decode([]byte(objects))
	if err != nil {
		t.Fatal(err)
	}
	var batch mesh.Batch
	for _, c := range list {
		c.Generation = 4
		batch = append(batch, mesh.Event{Config: c})
	}
	c := gatewayapi.New(gatewayapi.Options{Deploys: true})
	c.Convert(append(batch, mesh.Event{Op: mesh.Synced}))
	return c
}

// newController returns a Controller of an API server that does not exist.
func newController(t *testing.T) *Controller {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Client: client, Converter: newConverter(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSpecs(t *testing.T) {
	c := newController(t)
	want := map[string]string{
		"edge":  "ours edge-ours mesh-system/defaults [192.0.2.1 2001:db8::1] http/80/TCP/http tcp/9000/TCP/tcp",
		"named": "other-parameters front - [] http/80/TCP/http",
	}
	describe := func(s *gateway.Spec) string {
		parameters := "-"
		if s.ClassParameters != nil {
			parameters = s.ClassParameters.String()
		}
		text := fmt.Sprintf("%s %s %s %v", s.Class, s.ObjectName, parameters, s.Addresses)
		for _, p := range s.Ports {
			text += fmt.Sprintf(" %s/%d/%s/%s", p.Name, p.Port, p.Protocol, *p.AppProtocol)
		}
		return text
	}
	for _, s := range c.specs() {
		if got := describe(s); s.Gateway.Namespace != "shop" || got != want[s.Gateway.Name] {
			t.Errorf("%s is %q, want %q", s.Gateway, got, want[s.Gateway.Name])
		}
		if has := s.Infrastructure != nil && s.Infrastructure.Labels["team"] == "web"; has != (s.Gateway.Name == "edge") {
			t.Errorf("%s has the infrastructure %+v", s.Gateway, s.Infrastructure)
		}
	}
	if n := len(c.specs()); n != len(want) {
		t.Errorf("%d Gateways are deployed, want %d", n, len(want))
	}
	for name, deployed := range map[string]bool{"edge": true, "named": true, "remote": false, "none": false} {
		s := c.spec(types.NamespacedName{Namespace: "shop", Name: name})
		if (s != nil) != deployed || s != nil && describe(s) != want[name] {
			t.Errorf("the Spec of %s is %+v", name, s)
		}
	}
}

// TestClassParameters tests that the parametersRef of a class is used only if it names a ConfigMap and its
// namespace.
func TestClassParameters(t *testing.T) {
	for parametersRef, want := range map[string]types.NamespacedName{
		`{group: "", kind: ConfigMap, name: defaults, namespace: mesh-system}`:          {Namespace: "mesh-system", Name: "defaults"},
		`{group: "", kind: ConfigMap, name: large, namespace: mesh-system}`:             {Namespace: "mesh-system", Name: "large"},
		`{group: "", kind: ConfigMap, name: defaults, namespace: infra}`:                {Namespace: "infra", Name: "defaults"},
		`{group: "", kind: ConfigMap, name: defaults}`:                                  {},
		`{group: "", kind: Secret, name: defaults, namespace: mesh-system}`:             {},
		`{group: example.com, kind: ConfigMap, name: defaults, namespace: mesh-system}`: {},
	} {
		list, err := fixture.Decode([]byte(`
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: ours}
spec: {controllerName: istio.io/gateway-controller, parametersRef: ` + parametersRef + `}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge, namespace: shop}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
`))
		if err != nil {
			t.Fatal(err)
		}
		s := specOf(&gatewayapi.Deployment{Class: "ours", ClassObject: list[0], Gateway: list[1]})
		if got := s.ClassParameters; (got != nil) != (want.Name != "") || got != nil && *got != want {
			t.Errorf("%s: the parameters are %v, want %v", parametersRef, got, want)
		}
	}
}

func TestDesiredStatuses(t *testing.T) {
	d := newController(t).desiredStatuses()
	edge := config.Key{Kind: api.KubernetesGateway, Namespace: "shop", Name: "edge"}
	got, there := d.Get(edge)
	if s, ok := got.Value.(*gatewayv1.GatewayStatus); !there || !ok || got.Generation != 4 || len(s.Listeners) != 2 {
		t.Errorf("the status of a Gateway is %+v", got)
	}
	edge.Name = "none"
	if got, there := d.Get(edge); there {
		t.Errorf("a Gateway that does not exist has the status %+v", got)
	}
	kinds := d.Kinds()
	for _, k := range []api.Kind{api.GatewayClass, api.KubernetesGateway} {
		if _, some := kinds[k]; !some || len(kinds) != 2 {
			t.Errorf("the kinds with a status are %v", kinds)
		}
	}
	for controller, own := range map[string]bool{
		"istio.io/gateway-controller": true, "istio.io/unmanaged-gateway": true, "istio.io/mesh-controller": true, "example.com/other": false, "": false,
	} {
		if d.IsOwn(controller) != own {
			t.Errorf("controller %q is our own: %v", controller, !own)
		}
	}
}

// TestTasks: each selected task has an election, and revisions have separate elections for tasks
// that each revision performs.
func TestTasks(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	all := Options{WriteStatus: true, Deploy: true, CreateClasses: true}
	const class, deployment, statuses = leader.GatewayClasses, leader.GatewayDeployments, leader.GatewayStatus
	for _, test := range []struct {
		about, revision string
		options         Options
		want            []string
	}{
		{"the default revision", "default", all, []string{class, deployment, statuses}},
		{"no revision", "", all, []string{class, deployment, statuses}},
		{"a revision", "canary", all, []string{class, deployment + "-canary", statuses, statuses + "-canary"}},
		{"statuses alone", "", Options{WriteStatus: true}, []string{statuses}},
		{"deployments alone", "", Options{Deploy: true}, []string{deployment}},
		{"classes alone", "", Options{CreateClasses: true}, []string{class}},
	} {
		t.Run(test.about, func(t *testing.T) {
			namespace := c.Namespace(t, "system", nil)
			o := test.options
			o.Namespace, o.Revision, o.Client, o.Converter = namespace, test.revision, client, newConverter(t)
			o.Elections = leader.New(leader.Options{
				Client: client.Kubernetes.CoordinationV1(), Namespace: namespace, Identity: "pilot-0", LeaseDuration: 2 * time.Second,
			})
			o.Status = status.New(status.Options{
				Inputs:  status.Inputs{Applied: status.NewAppliedObjects("test", time.Now)},
				Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Namespace: namespace, Pod: "pilot-0", Revision: test.revision,
			})
			runTasks(t, o, func() bool {
				return slices.Equal(leases(t, client, namespace), test.want) && (!o.CreateClasses || hasClass(t, client, "meshpilot"))
			})
		})
	}
}

// runTasks runs a Controller until the condition holds.
func runTasks(t *testing.T, o Options, condition func() bool) {
	t.Helper()
	controller, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	serving.Until(t, 90*time.Second, "the tasks have their Leases, and the classes exist", condition)
}

// hasClass reports whether a GatewayClass exists.
func hasClass(t *testing.T, client *kube.Client, name string) bool {
	t.Helper()
	resource := schema.GroupVersion(gatewayv1.GroupVersion).WithResource("gatewayclasses")
	_, err := client.Dynamic.Resource(resource).Get(t.Context(), name, metav1.GetOptions{})
	return err == nil
}

// leases returns the names of the Leases of a namespace, sorted.
func leases(t *testing.T, client *kube.Client, namespace string) []string {
	t.Helper()
	list, err := client.Kubernetes.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return nil
	}
	var names []string
	for _, l := range list.Items {
		names = append(names, l.Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
