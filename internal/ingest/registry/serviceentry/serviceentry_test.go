package serviceentry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

type manifest struct {
	Kind     api.Kind
	Metadata struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
		CreationTimestamp   time.Time
	}
	Spec json.RawMessage
}

// object reads a manifest of an Istio kind, or of a Namespace.
func object(t testing.TB, text string) *config.Config {
	t.Helper()
	var m manifest
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	info, known := api.Info(m.Kind)
	if !known {
		t.Fatalf("unknown kind %q", m.Kind)
	}
	var spec any
	if info.Istio() {
		msg := info.NewSpec()
		if err := protojson.Unmarshal(m.Spec, msg); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		spec = msg
	}
	return newConfig(t, m, spec)
}

func newConfig(t testing.TB, m manifest, spec any) *config.Config {
	t.Helper()
	c, err := config.New(config.Meta{
		Key:    config.Key{Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name},
		Labels: m.Metadata.Labels, Annotations: m.Metadata.Annotations, Created: m.Metadata.CreationTimestamp, Origin: "test.yaml#1:1",
	}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withSpec returns the object with its spec changed.
func withSpec[M proto.Message](t testing.TB, c *config.Config, change func(M)) *config.Config {
	t.Helper()
	spec := proto.Clone(config.Spec[M](c)).(M)
	change(spec)
	changed, err := config.New(c.Meta, spec)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func upserts(objects ...*config.Config) mesh.Batch {
	var b mesh.Batch
	for _, o := range objects {
		b = append(b, mesh.Event{Config: o})
	}
	return b
}

// converted returns the output of a new Converter for the objects.
func converted(t testing.TB, objects ...*config.Config) *conform.State {
	t.Helper()
	state := conform.NewState()
	if err := state.Apply(serviceentry.New(serviceentry.Options{Cluster: "c1", TrustDomain: "td", SelectPods: true}).Convert(upserts(objects...))); err != nil {
		t.Fatal(err)
	}
	return state
}

func service(t testing.TB, s *conform.State, host mesh.Hostname) *mesh.Service {
	t.Helper()
	for id, svc := range s.Services {
		if id.Host == host {
			return svc
		}
	}
	t.Fatalf("no service %q", host)
	return nil
}

// endpoints returns the endpoints that the host's shards list, in order.
func endpoints(s *conform.State, host mesh.Hostname) []*mesh.Endpoint {
	var list []*mesh.Endpoint
	for id, shard := range s.Shards {
		if id.Service.Host == host {
			list = append(list, shard.Endpoints...)
		}
	}
	return list
}

// problems returns "severity field: reason" of all Problems.
func problems(s *conform.State) []string {
	var list []string
	for _, of := range s.Problems {
		for _, p := range of {
			list = append(list, string(p.Severity)+" "+p.Field+": "+p.Reason)
		}
	}
	return list
}

// edit replaces text in a manifest, which must be there.
func edit(t testing.TB, manifest string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(manifest, oldNew[i]) {
			t.Fatalf("no %q in\n%s", oldNew[i], manifest)
		}
		manifest = strings.Replace(manifest, oldNew[i], oldNew[i+1], 1)
	}
	return manifest
}

const (
	staticEntry = `
kind: ServiceEntry
metadata: {name: db, namespace: default, labels: {team: data}, creationTimestamp: "2024-05-01T00:00:00Z"}
spec:
  hosts: [DB.example.com, replica.example.com]
  addresses: [240.0.0.1, 240.1.0.0/32, 240.2.3.4/16]
  ports:
  - {name: tcp, number: 3306, protocol: TCP, targetPort: 13306}
  - {name: http, number: 80, protocol: HTTP}
  location: MESH_INTERNAL
  resolution: STATIC
  exportTo: [".", other]
  subjectAltNames: ["spiffe://td/ns/default/sa/db"]
  endpoints:
  - address: 192.0.2.1
    ports: {http: 8080}
    labels: {version: v1}
    locality: eu/eu-1/r1
    network: net-1
    weight: 5
    serviceAccount: db
  - address: unix:///var/run/db.sock`
	dnsEntry = `
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec:
  hosts: [www.example.com, api.example.com]
  ports: [{name: https, number: 443, protocol: TLS}, {name: http, number: 80, protocol: HTTP, targetPort: 8080}]
  location: MESH_EXTERNAL
  resolution: DNS`
	selectingEntry = `
kind: ServiceEntry
metadata: {name: vms, namespace: default}
spec:
  hosts: [vms.example.com]
  ports: [{name: http, number: 80, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: vm}}`
	workloadEntry = `
kind: WorkloadEntry
metadata: {name: vm-1, namespace: default}
spec:
  address: 192.0.2.7
  ports: {http: 8080}
  labels: {app: vm, version: v1}
  network: net-2
  locality: eu/eu-2
  weight: 3
  serviceAccount: vm`
	passthroughEntry = `
kind: ServiceEntry
metadata: {name: wild, namespace: default}
spec:
  hosts: ["*.example.org"]
  ports: [{name: https, number: 443, protocol: TLS}]
  resolution: NONE`
)
