package conform_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func service(host mesh.Hostname, port uint32) mesh.Event {
	s := mesh.Service{ServiceKey: mesh.ServiceKey{Host: host}, Ports: []mesh.Port{{Number: port}}}
	return mesh.Event{Source: "r", Service: s.Sealed()}
}

func gone(e mesh.Event) mesh.Event {
	e.Op = mesh.Delete
	return e
}

func shard(host mesh.Hostname, addresses ...string) mesh.Event {
	s := mesh.Shard{Service: mesh.ServiceKey{Host: host}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, &mesh.Endpoint{Address: a})
	}
	return mesh.Event{Source: "r", Shard: s.Sealed()}
}

func problem(scope string, reasons ...string) mesh.Event {
	p := &mesh.Problems{Scope: scope}
	for _, r := range reasons {
		p.List = append(p.List, config.Problem{Reason: r})
	}
	return mesh.Event{Source: "r", Problems: p}
}

func TestStateNamesForbiddenEvents(t *testing.T) {
	unsealed := mesh.Event{Source: "r", Service: &mesh.Service{ServiceKey: mesh.ServiceKey{Host: "a"}}}
	changed := service("a", 1)
	changed.Service.Ports[0].Number = 2
	nameless := service("a", 1)
	nameless.Source = ""
	synced := mesh.Event{Op: mesh.Synced, Source: "r"}
	for _, c := range []struct {
		name  string
		batch mesh.Batch
		want  string // "" for nothing
	}{
		{"valid sequence", mesh.Batch{service("a", 1), shard("a", "x"), synced, service("a", 2), gone(service("a", 2)), shard("a", "y"), problem("k", "r"), problem("k")}, ""},
		{"not sealed", mesh.Batch{unsealed}, "is not sealed"},
		{"changed after it was sealed", mesh.Batch{changed}, "is not sealed"},
		{"service unchanged", mesh.Batch{service("a", 1), service("a", 1)}, "what is known"},
		{"shard unchanged", mesh.Batch{shard("a", "x"), shard("a", "x")}, "what is known"},
		{"deletion of an unknown service", mesh.Batch{gone(service("a", 1))}, "which is not there"},
		{"shard deleted twice", mesh.Batch{shard("a"), gone(shard("a")), gone(shard("a"))}, "which is not there"},
		{"synced twice", mesh.Batch{synced, synced}, "second time"},
		{"no source", mesh.Batch{nameless}, "no source"},
		{"no scope", mesh.Batch{problem("", "r")}, "without a scope"},
		{"resolution of an unknown problem", mesh.Batch{problem("k")}, "nothing was wrong"},
	} {
		err := conform.NewState().Apply(c.batch)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestStateCheck(t *testing.T) {
	e := shard("a", "x")
	state := conform.Fold(mesh.Batch{e})
	if err := state.Check(); err != nil {
		t.Error(err)
	}
	e.Shard.Endpoints[0].Port = 1
	if err := state.Check(); err == nil {
		t.Error("Check does not report that a shard was modified after it was sent")
	}
}

func TestFold(t *testing.T) {
	got := conform.Fold(mesh.Batch{service("a", 1), service("b", 1), problem("k", "r")}, mesh.Batch{service("a", 2), gone(service("b", 1)), problem("k")})
	want := conform.NewState()
	want.Services[conform.ServiceID{ServiceKey: mesh.ServiceKey{Host: "a"}}] = service("a", 2).Service
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
