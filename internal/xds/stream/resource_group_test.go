package stream

import (
	"fmt"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestGroupsAreSharedBySteps: when many streams make the same step concurrently, the difference is
// computed once, and all streams are sent the same Payloads.
func TestGroupsAreSharedBySteps(t *testing.T) {
	snapshots := []benchResources{newBenchResources(50, 1, 3), newBenchResources(51, 2, 3), newBenchResources(50, 3, 5)}
	machines := make([]*Machine, 8)
	sent := make([][]*Payload, len(machines))
	var streams sync.WaitGroup
	for i := range machines {
		streams.Go(func() {
			machines[i] = connected(snapshots[0], Delta, asSent(snapshots[0].names))
			for _, w := range snapshots[1:] {
				sent[i] = append(sent[i], parts(machines[i], Ready{Resources: w.Resources})...)
			}
		})
	}
	streams.Wait()
	for i := range sent {
		if len(sent[i]) == 0 || len(sent[i]) != len(sent[0]) {
			t.Fatalf("stream %d was sent %d Payloads, the first %d", i, len(sent[i]), len(sent[0]))
		}
		for j, p := range sent[i] {
			if p != sent[0][j] {
				t.Errorf("stream %d was sent a Payload of its own: %v", i, namesOf(p))
			}
		}
	}
}

// parts applies an event, writes and acknowledges all responses, and returns their Payloads.
func parts(m *Machine, e Event) []*Payload {
	var list []*Payload
	for _, a := range m.Step(e) {
		if s, ok := a.(Send); ok {
			list = append(list, s.Parts...)
			list = append(list, parts(m, Request{TypeURL: s.TypeURL, Nonce: s.Nonce})...)
			list = append(list, parts(m, Sent{})...)
		}
	}
	return list
}

// TestReferencesAreReadOnce: references are read only of resources that change together with new
// clusters, and only once for all streams.
func TestReferencesAreReadOnce(t *testing.T) {
	var asked []string
	resources := func(clusters, route string) *ResourceSnapshot {
		groups := map[string][]*ResourceGroup{}
		for url, names := range map[string][]string{pushOrder[cds].URL: {"a", clusters}, pushOrder[rds].URL: {"80", "90"}} {
			var list []*resource.Resource
			for _, n := range names {
				body := "1:a"
				if n == "80" {
					body = route
				}
				if n != "" {
					list = append(list, resource.FromBytes(n, url, []byte(body)))
				}
			}
			groups[url] = []*ResourceGroup{NewNamedResourceGroup(setOf(list), names)}
		}
		groups[pushOrder[cds].URL] = []*ResourceGroup{NewResourceGroup(groups[pushOrder[cds].URL][0].set)}
		return BuildResourceSnapshot(Contents{Groups: groups, ClustersOf: func(r *resource.Resource) []string {
			asked = append(asked, r.Name+"="+string(r.Body))
			return refs(r)
		}})
	}
	one, two, three := resources("", "1:a"), resources("", "2:a"), resources("b", "3:a,b")
	for range 3 {
		m := New(Options{Mode: Delta})
		converse(m, Ready{Resources: one})
		for _, r := range []Request{{TypeURL: pushOrder[cds].URL}, {TypeURL: pushOrder[lds].URL}, {TypeURL: pushOrder[rds].URL, Subscribe: []string{"80", "90"}}} {
			converse(m, r)
		}
		converse(m, Ready{Resources: two})
		for actions := m.Step(Ready{Resources: three}); len(actions) > 0; { // nothing is acknowledged
			actions = m.Step(Sent{})
		}
	}
	if got, want := fmt.Sprint(asked), "[80=3:a,b]"; got != want {
		t.Errorf("references were read of %s, want %s", got, want)
	}
}
