package destination

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// world is a View with the services web:80, db:3306, two:80,81, "alias" for web, and two aliases
// for each other; and a VirtualService of the namespace "default".
func world(t *testing.T) (*view.View, *snapshot.VirtualService) {
	t.Helper()
	service := func(name string, aliasOf mesh.Hostname, ports ...uint32) mesh.Event {
		s := mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(name + ".default.svc.cluster.local")},
			Provider:   mesh.Kubernetes, Resolution: mesh.Static, AliasOf: aliasOf,
		}
		if aliasOf != "" {
			s.Resolution = mesh.Alias
		}
		for _, p := range ports {
			s.Ports = append(s.Ports, mesh.Port{Number: p, Protocol: mesh.TCP})
		}
		return mesh.Event{Service: s.Sealed()}
	}
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "default", Name: "vs"}},
		&networking.VirtualService{Hosts: []string{"web"}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := snapshot.NewBuilder(snapshot.Options{}).Apply(
		service("web", "", 80), service("db", "", 3306), service("two", "", 80, 81), service(
			"alias",
			"web.default.svc.cluster.local",
		),
		service(
			"this",
			"that.default.svc.cluster.local",
		), service("that", "this.default.svc.cluster.local"), mesh.Event{Config: c},
	)
	return view.Build(s, view.Key{Type: mesh.SidecarProxy, Namespace: "default"}), s.VirtualServices()[0]
}

func TestNamed(t *testing.T) {
	v, vs := world(t)
	tests := map[string]struct {
		destination *networking.Destination
		want        string
	}{
		"short name": {
			&networking.Destination{Host: "web"}, "outbound|8080||web.default.svc.cluster.local",
		},
		"port and subset": {
			&networking.Destination{Host: "web", Subset: "v1", Port: &networking.PortSelector{Number: 81}},
			"outbound|81|v1|web.default.svc.cluster.local",
		},
		"only another port": {
			&networking.Destination{Host: "db"}, "outbound|8080||db.default.svc.cluster.local",
		},
		"unknown": {&networking.Destination{Host: "Example.com"}, "outbound|8080||example.com"},
		"alias": {
			&networking.Destination{Host: "alias"},
			"outbound|8080||web.default.svc.cluster.local",
		},
		"no host": {nil, "outbound|8080||"},
		"port 0 is as good as none": {
			&networking.Destination{Host: "web", Port: new(networking.PortSelector)},
			"outbound|8080||web.default.svc.cluster.local",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Named(
				Host(v, vs.ResolveHost(tt.destination.GetHost())),
				tt.destination,
				8080,
			).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAliasesInACircleEnd(t *testing.T) {
	v, _ := world(t)
	got := Host(v, "this.default.svc.cluster.local")
	if got != "this.default.svc.cluster.local" && got != "that.default.svc.cluster.local" {
		t.Errorf("got %s", got)
	}
}

func TestShares(t *testing.T) {
	v, vs := world(t)
	to := func(host string, weight int32) *networking.RouteDestination {
		return &networking.RouteDestination{Destination: &networking.Destination{Host: host}, Weight: weight}
	}
	share := func(port uint32, host string, weight uint32) Share {
		return Share{
			mesh.ClusterName{
				Direction: mesh.Outbound,
				Port:      port,
				Host:      mesh.Hostname(host + ".default.svc.cluster.local"),
			},
			weight,
		}
	}
	tests := map[string]struct {
		route []*networking.RouteDestination
		want  []Share
	}{
		"single, without weight": {[]*networking.RouteDestination{to("db", 0)}, []Share{share(3306, "db", 1)}},
		"several, one of weight 0": {
			[]*networking.RouteDestination{to("db", 10), to("web", 0), to("unknown", 30)},
			[]Share{share(3306, "db", 10), share(8080, "unknown", 30)},
		},
		"several ports: the caught": {[]*networking.RouteDestination{to("two", 1)}, []Share{share(8080, "two", 1)}},
		"an alias's only port":      {[]*networking.RouteDestination{to("alias", 1)}, []Share{share(80, "web", 1)}},
		"all of weight 0":           {[]*networking.RouteDestination{to("db", 0), to("web", 0)}, nil},
		"a negative weight is nobody": {
			[]*networking.RouteDestination{to("db", -1), to("web", 1)},
			[]Share{share(80, "web", 1)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, Shares(v, vs, tt.route, 8080)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
