// Package pushtest provides a small mesh for tests of packages push and rollout: services,
// endpoints and configuration objects that tests change, and generators that make simple,
// well-formed resources of them.
//
// [Mesh] turns changes into snapshots with their Deltas. [Generators] is a table of generators that
// count their calls. The package is for tests only. Start with [Mesh].
package pushtest

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Mesh is a mesh that tests change. Every change is one Delta. It must be used by one goroutine.
type Mesh struct {
	t       testing.TB
	builder *snapshot.Builder
	// Publish is called with each change. If nil, changes are only applied.
	Publish func(*snapshot.Snapshot, snapshot.Delta)
	edits   int
}

// New returns a Mesh with n services, "s0" to "s<n-1>" in namespace "default", of one endpoint
// each. They are applied, but published only with the first change.
func New(t testing.TB, n int) *Mesh {
	m := &Mesh{t: t, builder: snapshot.NewBuilder(snapshot.Options{Cluster: "Kubernetes"})}
	var events []mesh.Event
	for i := range n {
		name := fmt.Sprint("s", i)
		events = append(
			events,
			mesh.Event{Service: service(name)},
			mesh.Event{Shard: shard(name, fmt.Sprintf("10.1.%d.%d", i/250, i%250))},
		)
	}
	m.builder.Apply(events...)
	return m
}

// Current returns the newest snapshot.
func (m *Mesh) Current() *snapshot.Snapshot { return m.builder.Current() }

// Apply applies events and publishes the resulting snapshot. Without m.Publish it publishes
// nothing.
func (m *Mesh) Apply(events ...mesh.Event) (*snapshot.Snapshot, snapshot.Delta) {
	s, d := m.builder.Apply(events...)
	if m.Publish != nil {
		m.Publish(s, d)
	}
	return s, d
}

// AddService adds a service without endpoints and publishes the new snapshot, or the same one with
// an empty Delta if the service exists.
func (m *Mesh) AddService(name string) { m.Apply(mesh.Event{Service: service(name)}) }

// RemoveService removes a service and publishes the new snapshot.
func (m *Mesh) RemoveService(name string) {
	m.Apply(RemovalEvent(name))
}

// RemovalEvent returns the event of RemoveService, for changes of several things at once.
func RemovalEvent(name string) mesh.Event { return mesh.Event{Op: mesh.Delete, Service: service(name)} }

// SetEndpoints replaces the endpoints of a service and publishes the new snapshot.
func (m *Mesh) SetEndpoints(name string, addresses ...string) {
	m.Apply(EndpointsEvent(name, addresses...))
}

// EndpointsEvent returns the event of SetEndpoints, for changes of several things at once.
func EndpointsEvent(name string, addresses ...string) mesh.Event {
	return mesh.Event{Shard: shard(name, addresses...)}
}

// EditRoutes adds or changes the VirtualService "edit" of the host "s0", and with it the
// RouteConfiguration "80", and publishes the new snapshot. Each call sets another name of the
// route. It fails the test if the object is invalid.
func (m *Mesh) EditRoutes() {
	m.edits++
	c, err := config.New(config.Meta{
		Key: config.Key{Kind: api.VirtualService, Namespace: "default", Name: "edit"}, Created: time.Unix(1, 0),
	}, &networking.VirtualService{Hosts: []string{"s0"}, Http: []*networking.HTTPRoute{{Name: fmt.Sprint("edit-",
		m.edits)}}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(mesh.Event{Config: c})
}

// SetProblem replaces the Problems by one and publishes the new snapshot, with an empty Delta:
// nothing differs for proxies.
func (m *Mesh) SetProblem(reason string) {
	m.Apply(mesh.Event{Problems: &mesh.Problems{Scope: "edit.yaml", List: []config.Problem{{
		Key:    config.Key{Kind: api.VirtualService, Namespace: "default", Name: "edit"},
		Reason: reason, Severity: config.Warning, Code: code.SchemaWarning,
	}}}})
}

// SetMutualTLS replaces the endpoints of a service by endpoints at these addresses, port 80, that
// accept mutual TLS, and publishes the new snapshot.
func (m *Mesh) SetMutualTLS(name string, addresses ...string) {
	s := *shard(name, addresses...)
	s.Endpoints = nil
	for _, a := range addresses {
		s.Endpoints = append(
			s.Endpoints,
			&mesh.Endpoint{Address: a, Port: 80, ServicePort: "http", Namespace: "default", TLS: true},
		)
	}
	m.Apply(mesh.Event{Shard: s.Sealed()})
}

// SetWorkload adds or replaces a workload of the default namespace that accepts mutual TLS, and
// publishes the new snapshot.
func (m *Mesh) SetWorkload(name, address string) {
	w := mesh.Workload{
		Provider:  mesh.Kubernetes,
		Namespace: "default",
		Name:      name,
		Addresses: []string{address},
		TLS:       true,
	}
	m.Apply(mesh.Event{Workload: w.Sealed()})
}

// SetPeers sets the mutual TLS mode of the default namespace by a PeerAuthentication, and publishes
// the new snapshot. It fails the test if that is invalid.
func (m *Mesh) SetPeers(mode security.PeerAuthentication_MutualTLS_Mode) {
	c, err := config.New(config.Meta{
		Key: config.Key{Kind: api.PeerAuthentication, Namespace: "default", Name: "default"}, Created: time.Unix(1, 0),
	}, &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: mode}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(mesh.Event{Config: c})
}

// SetSidecar sets a Sidecar for the workloads of the default namespace with these labels, in place
// of an earlier one, and publishes the new snapshot. It fails the test if the Sidecar is invalid.
func (m *Mesh) SetSidecar(labels map[string]string) {
	c, err := config.New(config.Meta{
		Key: config.Key{Kind: api.Sidecar, Namespace: "default", Name: "own"}, Created: time.Unix(1, 0),
	}, &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: labels}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(mesh.Event{Config: c})
}

// EnvoyFilter is an EnvoyFilter of the default namespace.
type EnvoyFilter struct {
	Name string
	// Edit makes its content differ.
	Edit int
	// Protects makes it add a filter of authorization to listeners, instead of a compressor.
	Protects bool
	// Routes makes it change routes instead of listeners.
	Routes      bool
	Annotations map[string]string
}

// SetEnvoyFilter adds or replaces an EnvoyFilter and publishes the new snapshot. Listeners or
// routes that it applies to have it in From. It inserts a compressor, with Protects an authorizer;
// with Routes it merges into routes. It fails the test if the EnvoyFilter is invalid.
func (m *Mesh) SetEnvoyFilter(f EnvoyFilter) {
	m.t.Helper()
	typeName := "envoy.extensions.filters.http.compressor.v3.Compressor"
	if f.Protects {
		typeName = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
	}
	patch := &networking.EnvoyFilter_EnvoyConfigObjectPatch{
		ApplyTo: networking.EnvoyFilter_HTTP_FILTER,
		Match:   &networking.EnvoyFilter_EnvoyConfigObjectMatch{},
		Patch: &networking.EnvoyFilter_Patch{
			Operation: networking.EnvoyFilter_Patch_INSERT_BEFORE,
			Value: m.value(map[string]any{
				"name": fmt.Sprint(
					"edit-",
					f.Edit,
				),
				"typed_config": map[string]any{"@type": "type.googleapis.com/" + typeName},
			}),
		},
	}
	if f.Routes {
		patch.ApplyTo, patch.Patch.Operation = networking.EnvoyFilter_HTTP_ROUTE, networking.EnvoyFilter_Patch_MERGE
		patch.Match.Context = networking.EnvoyFilter_SIDECAR_OUTBOUND
		patch.Patch.Value = m.value(map[string]any{"statPrefix": fmt.Sprint("edit-", f.Edit)})
	}
	c, err := config.New(config.Meta{
		Key: config.Key{
			Kind:      api.EnvoyFilter,
			Namespace: "default",
			Name:      f.Name,
		},
		Created:     time.Unix(1, 0),
		Annotations: f.Annotations,
	}, &networking.EnvoyFilter{ConfigPatches: []*networking.EnvoyFilter_EnvoyConfigObjectPatch{patch}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(mesh.Event{Config: c})
}

// value converts fields to a Struct, and fails the test if that is impossible.
func (m *Mesh) value(fields map[string]any) *structpb.Struct {
	m.t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// Proxy returns the i-th of alike sidecars of a namespace, with its own address, label "i" and
// identity.
func Proxy(i int, namespace string) *mesh.Proxy {
	addr := netip.AddrFrom4([4]byte{10, 9, byte(i / 250), byte(i % 250)})
	return &mesh.Proxy{
		ID:   fmt.Sprintf("sidecar~%s~p%d.%s~%s.svc.cluster.local", addr, i, namespace, namespace),
		Type: mesh.SidecarProxy, Addresses: []netip.Addr{addr}, Name: fmt.Sprint("p", i), Namespace: namespace,
		DNSDomain: namespace + ".svc.cluster.local", Labels: map[string]string{"i": fmt.Sprint(i)},
		Identity: fmt.Sprintf("spiffe://cluster.local/ns/%s/sa/p%d", namespace, i),
	}
}

// Identified returns a copy of the proxy with another identity. "" means none, as for a client of
// the plain-text port.
func Identified(p *mesh.Proxy, identity string) *mesh.Proxy {
	other := *p
	other.Identity = identity
	return &other
}

// ClusterName returns the name of a service's outbound cluster, at port 80.
func ClusterName(service string) string {
	return mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: host(service)}.String()
}

// host returns the hostname of a service in the namespace default.
func host(name string) mesh.Hostname { return mesh.Hostname(name + ".default.svc.cluster.local") }

// service returns a Kubernetes Service in the namespace default with the HTTP port 80, sealed.
func service(name string) *mesh.Service {
	return mesh.Service{
		ServiceKey: mesh.ServiceKey{
			Namespace: "default",
			Host:      host(name),
		},
		Provider:   mesh.Kubernetes,
		Cluster:    "Kubernetes",
		Name:       name,
		Ports:      []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 80}},
		Resolution: mesh.Static,
		From:       config.Key{Kind: api.Service, Namespace: "default", Name: name},
	}.Sealed()
}

// shard returns the EndpointSlice of a service with an endpoint at port 80 for each address,
// sealed.
func shard(name string, addresses ...string) *mesh.Shard {
	s := mesh.Shard{
		Service: mesh.ServiceKey{Namespace: "default", Host: host(name)},
		Key: mesh.ShardKey{
			Provider: mesh.Kubernetes,
			Cluster:  "Kubernetes",
			Object:   config.Key{Kind: api.EndpointSlice, Namespace: "default", Name: name},
		},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, &mesh.Endpoint{Address: a, Port: 80, ServicePort: "http"})
	}
	return s.Sealed()
}
