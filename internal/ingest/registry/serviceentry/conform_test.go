package serviceentry_test

import (
	"fmt"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestConformance(t *testing.T) {
	one := func(text string, oldNew ...string) mesh.Event {
		return mesh.Event{Config: object(t, edit(t, text, oldNew...))}
	}
	conform.Run(t, conform.Fixture{
		Start:         conform.Converter(func() registry.Converter { return serviceentry.New(serviceentry.Options{SelectPods: true}) }),
		PassesThrough: true,
		Objects:       mesh.Batch{one(staticEntry), one(dnsEntry), one(selectingEntry), one(workloadEntry), one(passthroughEntry)},
		Changed: mesh.Batch{
			one(staticEntry, "192.0.2.1", "192.0.2.2"),
			one(staticEntry, ", replica.example.com", ""),
			one(staticEntry, "DB.example.com", "another.example.com"),
			one(dnsEntry, "resolution: DNS", "resolution: DNS_ROUND_ROBIN"),
			one(dnsEntry, "resolution: DNS", "resolution: NONE"),
			one(selectingEntry, "app: vm", "app: other"),
			one(workloadEntry, "192.0.2.7", "192.0.2.8"),
			one(workloadEntry, "192.0.2.7", "''"), // behind a gateway
			one(workloadEntry, "name: vm-1", "name: vm-1, labels: {of: the object}"),
			one(workloadEntry, "name: vm-1", "name: vm-1, annotations: {proxy.istio.io/health-checks-enabled: 'true'}"),
			one(passthroughEntry, "resolution: NONE", "resolution: DYNAMIC_DNS"),
			one(selectingEntry, "name: vms", "name: vms, labels: {networking.istio.io/enable-autoallocate-ip: 'false'}"),
			one(passthroughEntry, "443", "8443"),
			one(staticEntry, "labels: {team: data}", "labels: {team: data}, annotations: {adapter.meshpilot.io/platform: Marathon}"),
		},
		Same: mesh.Batch{
			one(staticEntry, "labels: {team: data}", "labels: {team: data}, annotations: {example.com/note: x}"),
			// not names of platforms
			one(staticEntry, "labels: {team: data}", "labels: {team: data}, annotations: {adapter.meshpilot.io/platform: Kubernetes}"),
			one(staticEntry, "labels: {team: data}", "labels: {team: data}, annotations: {adapter.meshpilot.io/platform: 'a/b'}"),
			one(dnsEntry, "[www.example.com, api.example.com]", "[API.example.com, www.example.com]"),
			one(workloadEntry, "name: vm-1", "name: vm-1, annotations: {of: the object}"),
			// which the spec has too
			one(workloadEntry, "name: vm-1", "name: vm-1, labels: {app: vm}"),
		},
		Broken: mesh.Batch{
			one(staticEntry, "192.0.2.1", "db-1.example.com"),
			one(staticEntry, "240.0.0.1", "everywhere"),
			one(dnsEntry, "www.example.com", "'*.example.com'"),
			one(dnsEntry, "resolution: DNS", "resolution: DYNAMIC_DNS"),
			one(workloadEntry, "address: 192.0.2.7", "address: ''", "network: net-2", "network: ''"),
			one(workloadEntry, "{http: 8080}", "{http: 80800, https: 0, c: 70000}"),
		},
		Shared: mesh.Batch{
			one("kind: Namespace\nmetadata: {name: default, annotations: {networking.istio.io/traffic-distribution: PreferClose}}"),
			{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "another"}}},
			{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{ServiceEntryVisibility: &meshconfig.ServiceEntryVisibility{
				ApplyToSidecars: true, DefaultVisibility: meshconfig.ServiceEntryVisibility_NAMESPACE,
			}}}},
		},
		Large: func(n int) mesh.Batch { // in entries of one host, each as large as is valid
			var batch mesh.Batch
			for from := 0; from < n; from += 4096 {
				var endpoints []string
				for i := from; i < min(n, from+4096); i++ {
					endpoints = append(endpoints, fmt.Sprintf("{address: 198.18.%d.%d}", i>>8, i&255))
				}
				batch = append(batch, one(fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: large-%d}\nspec: {hosts: [large.example.com], resolution: STATIC, "+
					"ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [%s]}", from, strings.Join(endpoints, ", "))))
			}
			return batch
		},
		Old:     one(staticEntry),
		Renamed: one(staticEntry, "name: db", "name: database"),
	})
}

func TestPoisonedObjects(t *testing.T) {
	var batch mesh.Batch
	for _, text := range []string{staticEntry, dnsEntry, selectingEntry, workloadEntry, passthroughEntry} {
		batch = append(batch, mesh.Event{Source: "test", Config: object(t, text)})
	}
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter {
		return serviceentry.New(serviceentry.Options{SelectPods: true, Recovery: r})
	}, batch)
}
