package remote

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// anyEvent returns an event about one of few things, which have few contents.
func anyEvent(t *rapid.T) mesh.Event {
	name, content := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "name")), rapid.IntRange(0, 2).Draw(t, "content")
	op := mesh.Op(rapid.IntRange(0, 1).Draw(t, "op"))
	key := mesh.ServiceKey{Namespace: "ns", Host: mesh.Hostname(name)}
	from := config.Key{Kind: "Service", Namespace: "ns", Name: name}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return mesh.Event{Op: op, Service: mesh.Service{ServiceKey: key, Provider: mesh.Kubernetes, Cluster: "c", From: from, Name: fmt.Sprint(content)}.Sealed()}
	case 1:
		return mesh.Event{Op: op, Shard: mesh.Shard{
			Service: key, Key: mesh.ShardKey{Provider: mesh.Kubernetes, Cluster: "c", Object: from}, Endpoints: []*mesh.Endpoint{{Port: uint32(content)}},
		}.Sealed()}
	case 2:
		return mesh.Event{Op: op, Workload: mesh.Workload{Provider: mesh.Kubernetes, Cluster: "c", Namespace: "ns", Name: name, Node: fmt.Sprint(content)}.Sealed()}
	case 3:
		return mesh.Event{Op: op, Gateways: &mesh.GatewayObject{Cluster: "c", From: from, Gateways: []mesh.NetworkGateway{{Port: uint32(content)}}}}
	default:
		var list []config.Problem
		for range content {
			list = append(list, config.Problem{Key: from})
		}
		return mesh.Event{Source: "s", Problems: &mesh.Problems{Scope: name, List: list}}
	}
}

// TestClusterState: the state of a cluster, followed by its diff to another state, yields the other
// state. Removing everything leaves nothing.
func TestClusterState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.SliceOf(rapid.Custom(anyEvent))
		old, next := newClusterState(), newClusterState()
		old.record(batch.Draw(t, "old"))
		next.record(batch.Draw(t, "next"))

		reached := newClusterState()
		reached.record(old.deleteMissing(newClusterState())) // of nothing: no harm
		maps.Copy(reached.events, old.events)
		reached.counts = old.counts
		reached.record(old.diff(next))
		if diff := cmp.Diff(next.events, reached.events, cmp.AllowUnexported(subject{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if reached.counts != next.counts {
			t.Fatalf("counted %v, want %v", reached.counts, next.counts)
		}
		next.record(next.deleteMissing(newClusterState()))
		if len(next.events) > 0 || next.counts != [ranks]int{} {
			t.Fatalf("left are %v, counted %v", next.events, next.counts)
		}
	})
}

// TestLedgerPassesNothingElse: rules of a remote cluster do not become rules of the mesh.
func TestLedgerPassesNothingElse(t *testing.T) {
	l := newClusterState()
	out := l.record(mesh.Batch{
		{Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: "VirtualService", Name: "x"}}}},
		{Settings: &mesh.Settings{}},
		{SecretAccess: &mesh.SecretAccess{Allowed: true}},
		{Op: mesh.Synced},
	})
	if len(out)+len(l.events) > 0 {
		t.Errorf("passed on: %v, held: %v", out, l.events)
	}
}
