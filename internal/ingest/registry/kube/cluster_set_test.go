package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	clusterSetHost mesh.Hostname = "reviews.default.svc.clusterset.local"

	reviewsExport = `
kind: ServiceExport
metadata: {name: reviews, namespace: default}`
	reviewsImport = `
kind: ServiceImport
metadata: {name: reviews, namespace: default, labels: {app: imported}, creationTimestamp: "2024-05-03T00:00:00Z"}
spec: {type: ClusterSetIP, ips: [10.98.0.2, 10.98.0.1], ports: [{name: http-import, port: 81}]}`
)

// TestClusterSetEndpoints: who receives the endpoints of a service, by which name.
func TestClusterSetEndpoints(t *testing.T) {
	type told struct{ Usual, ClusterSet string }
	for _, c := range []struct {
		name                                  string
		set                                   kube.ClusterSet
		alone, exported, imported, bothOfThem told
	}{
		{"off", kube.ClusterSet{}, told{"all", ""}, told{"all", ""}, told{"all", ""}, told{"all", ""}},
		{"exports", kube.ClusterSet{Exports: true}, told{"own", ""}, told{"all", ""}, told{"own", ""}, told{"all", ""}},
		{"hosts", kube.ClusterSet{Exports: true, Hosts: true}, told{"own", ""}, told{"all", "all"}, told{"own", "own"}, told{"all", "all"}},
		{"local", kube.ClusterSet{Exports: true, Hosts: true, Local: true}, told{"own", ""}, told{"own", "all"}, told{"own", "own"}, told{"own", "all"}},
		{"hosts without exports", kube.ClusterSet{Hosts: true}, told{"all", ""}, told{"all", ""}, told{"all", ""}, told{"all", ""}},
		{"local without hosts", kube.ClusterSet{Exports: true, Local: true}, told{"own", ""}, told{"all", ""}, told{"own", ""}, told{"all", ""}},
	} {
		for _, o := range []struct {
			objects []string
			want    told
		}{{nil, c.alone}, {[]string{reviewsExport}, c.exported}, {[]string{reviewsImport}, c.imported}, {[]string{reviewsImport, reviewsExport}, c.bothOfThem}} {
			s := converted(t, kube.Options{ClusterSet: c.set}, append(o.objects, reviewsService, reviewsPod, reviewsSlice)...)
			toldOf := func(host mesh.Hostname) string {
				e := endpoints(s, host)["10.244.0.5:9080/http"]
				switch {
				case e == nil:
					return ""
				case e.Confined:
					return "own"
				default:
					return "all"
				}
			}
			if got := (told{toldOf(reviewsHost), toldOf(clusterSetHost)}); got != o.want {
				t.Errorf("%s, %d objects: %+v, want %+v", c.name, len(o.objects), got, o.want)
			}
		}
	}
}

// TestImportedService: the service of an import has the properties of the Service with its name,
// and otherwise those of the import.
func TestImportedService(t *testing.T) {
	o := kube.Options{ClusterSet: kube.ClusterSet{Exports: true, Hosts: true}}
	find := func(s *conform.State) *mesh.Service {
		for id, svc := range s.Services {
			if id.Host == clusterSetHost {
				return svc
			}
		}
		return nil
	}
	alone := find(converted(t, o, reviewsImport))
	if alone == nil || !cmp.Equal(alone.Addresses, []string{"10.98.0.1", "10.98.0.2"}) || alone.Ports[0].Number != 81 || alone.Ports[0].Protocol != mesh.HTTP ||
		alone.Labels["app"] != "imported" || alone.From.Kind != api.ServiceImport || alone.Selector != nil || alone.SettingsOf != reviewsHost {
		t.Errorf("by itself: %+v", alone)
	}
	beside := find(converted(t, o, reviewsImport, reviewsService))
	if beside == nil || !cmp.Equal(beside.Addresses, []string{"10.98.0.1", "10.98.0.2"}) || beside.Ports[0].Number != 9080 || beside.Selector != nil ||
		beside.Labels["app"] != "reviews" || beside.Name != "reviews" || beside.SettingsOf != "" || beside.From.Kind != api.ServiceImport {
		t.Errorf("beside the Service: %+v", beside)
	}
	if s := find(converted(t, o, edit(t, reviewsImport, "ips: [10.98.0.2, 10.98.0.1], ", ""))); s != nil {
		t.Errorf("without addresses: %+v", s)
	}
	if s := find(converted(t, kube.Options{ClusterSet: kube.ClusterSet{Exports: true}}, reviewsImport, reviewsService)); s != nil {
		t.Errorf("without hosts: %+v", s)
	}
	broken := converted(t, o, edit(t, reviewsImport, "10.98.0.2", "here"))
	if got := problems(broken, api.ServiceImport, "reviews"); len(got) != 1 || !strings.HasPrefix(got[0], `error spec.ips[0]: "here" is not an IP address`) {
		t.Errorf("problems %q", got)
	}
}

func TestClusterSetConformance(t *testing.T) {
	conform.Run(t, conform.Fixture{
		Start: conform.Converter(func() registry.Converter {
			return kube.New(kube.Options{ClusterSet: kube.ClusterSet{Exports: true, Hosts: true}})
		}),
		PassesThrough: true,
		Objects:       objects(t, reviewsService, reviewsSlice, reviewsPod, reviewsExport, reviewsImport),
		Changed: objects(t, edit(t, reviewsImport, "10.98.0.2", "10.98.0.3"), edit(t, reviewsService, "port: 9080", "port: 80"),
			edit(t, reviewsSlice, "service-name: reviews", "service-name: ratings"), edit(t, reviewsPod, "version: v1", "version: v2")),
		Same:    objects(t, edit(t, reviewsImport, "[10.98.0.2, 10.98.0.1]", "[10.98.0.1, 10.98.0.2]"), edit(t, reviewsImport, "port: 81", "port: 82")),
		Broken:  objects(t, edit(t, reviewsImport, "10.98.0.2", "here")),
		Old:     mesh.Event{Config: object(t, reviewsExport)},
		Renamed: mesh.Event{Config: object(t, edit(t, reviewsExport, "name: reviews", "name: ratings"))},
	})
}
