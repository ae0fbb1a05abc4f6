package stream

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// benchResources contains n services: a cluster and endpoints of each, and a route to all of them.
// Edited services differ from those of version 0. As in a control plane, several generators are
// asked for the endpoints of each name, and one has them.
type benchResources struct {
	Resources *ResourceSnapshot
	names     []string
}

func newBenchResources(n, version, edits int) benchResources {
	var clusters, endpoints []*resource.Resource
	var names []string
	for i := range n {
		name := fmt.Sprintf("outbound|80||service-%05d.default.svc.cluster.local", i)
		body := "0"
		if i < edits {
			body = fmt.Sprint(version)
		}
		names = append(names, name)
		clusters = append(clusters, resource.FromBytes(name, pushOrder[cds].URL, []byte("c")))
		endpoints = append(endpoints, resource.FromBytes(name, pushOrder[eds].URL, []byte(body)))
	}
	route := fmt.Sprintf("%d:%s", version, strings.Join(names, ","))
	return benchResources{names: names, Resources: BuildResourceSnapshot(Contents{
		Groups: map[string][]*ResourceGroup{
			pushOrder[cds].URL: {NewResourceGroup(setOf(clusters))},
			pushOrder[eds].URL: endpointGroups(setOf(endpoints), names),
			pushOrder[lds].URL: {
				NewResourceGroup(setOf([]*resource.Resource{resource.FromBytes("l", pushOrder[lds].URL, []byte("l"))})),
			},
			pushOrder[rds].URL: {
				NewNamedResourceGroup(
					setOf([]*resource.Resource{resource.FromBytes("80", pushOrder[rds].URL, []byte(route))}),
					[]string{"80"},
				),
			},
		},
		EndpointsOf: ownEndpoints, ClustersOf: refs,
	})}
}

// endpointGroups returns the ResourceGroups of three generators that looked up the same names, of which
// one has resources.
func endpointGroups(set *resource.Set, names []string) []*ResourceGroup {
	return []*ResourceGroup{
		NewNamedResourceGroup(set, names), NewNamedResourceGroup(nil, names), NewNamedResourceGroup(nil, names),
	}
}

// with replaces the first ResourceGroup of one type.
func (w benchResources) with(at int, s *ResourceGroup) benchResources {
	groups := map[string][]*ResourceGroup{}
	for i := range pushOrder {
		groups[pushOrder[i].URL] = w.Resources.lists[i].groups
	}
	list := []*ResourceGroup{s}
	if rest := groups[pushOrder[at].URL]; len(rest) > 0 {
		list = append(list, rest[1:]...)
	}
	groups[pushOrder[at].URL] = list
	w.Resources = BuildResourceSnapshot(Contents{Groups: groups, EndpointsOf: ownEndpoints, ClustersOf: refs})
	return w
}

func setOf(list []*resource.Resource) *resource.Set {
	set, err := resource.NewSet(list)
	if err != nil {
		panic(err)
	}
	return set
}

// converse applies an event, and writes and acknowledges all responses.
func converse(m *Machine, e Event) {
	for _, a := range m.Step(e) {
		if s, ok := a.(Send); ok {
			converse(m, Request{TypeURL: s.TypeURL, Nonce: s.Nonce, Version: s.Version, Names: m.Names(s.TypeURL)})
			converse(m, Sent{})
		}
	}
}

// connected returns a Machine whose client has the whole ResourceSnapshot. names are the names of
// the endpoints that it requests, as a client sends them.
func connected(w benchResources, mode Mode, names []string) *Machine {
	m := New(Options{Mode: mode})
	converse(m, Ready{Resources: w.Resources})
	converse(m, Request{TypeURL: pushOrder[cds].URL})
	if mode == Delta {
		converse(m, Request{TypeURL: pushOrder[eds].URL, Subscribe: names})
	} else {
		converse(m, Request{TypeURL: pushOrder[eds].URL, Names: names})
	}
	converse(m, Request{TypeURL: pushOrder[lds].URL})
	converse(m, Request{TypeURL: pushOrder[rds].URL, Subscribe: []string{"80"}, Names: []string{"80"}})
	return m
}

// asSent returns sorted copies of names, each in its own memory, as they are decoded from a
// request. Envoy sends them sorted.
func asSent(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = strings.Clone(n)
	}
	return list
}

// BenchmarkPush measures the part of a push that one stream costs: a new ResourceSnapshot, its
// Sends, and their Sent events and ACKs.
func BenchmarkPush(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		one, two := newBenchResources(n, 1, 1), newBenchResources(n, 2, 1)
		clusters := slices.Clone(one.Resources.lists[cds].groups[0].set.List())
		clusters[0] = resource.FromBytes(clusters[0].Name, clusters[0].TypeURL, []byte("c2"))
		for _, c := range []struct {
			what      string
			snapshots [2]benchResources
		}{
			{"nothing", [2]benchResources{one, one.with(sds, NewNamedResourceGroup(nil, nil))}},
			{"endpoints", [2]benchResources{one, one.with(eds, two.Resources.lists[eds].groups[0])}},
			{"cluster", [2]benchResources{one, one.with(cds, NewResourceGroup(setOf(clusters)))}},
			{"route", [2]benchResources{one, one.with(rds, two.Resources.lists[rds].groups[0])}},
			{"service", [2]benchResources{one, newBenchResources(n+1, 1, 1)}},
		} {
			for _, mode := range []Mode{Delta, SotW} {
				b.Run(fmt.Sprintf("%s/%s/%d", c.what, mode, n), func(b *testing.B) {
					m := connected(c.snapshots[0], mode, c.snapshots[0].names)
					b.ReportAllocs()
					for i := 1; b.Loop(); i++ {
						converse(m, Ready{Resources: c.snapshots[i%2].Resources})
					}
				})
			}
		}
	}
}

// BenchmarkConnect measures a cold connect after streams with identical subscriptions.
func BenchmarkConnect(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		for _, mode := range []Mode{Delta, SotW} {
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				w := newBenchResources(n, 1, 1)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					names := asSent(w.names)
					b.StartTimer()
					connected(w, mode, names)
				}
			})
		}
	}
}

// BenchmarkReconnect measures the connect of a client that has all resources and is sent none.
func BenchmarkReconnect(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newBenchResources(n, 1, 1)
			var held [typeCount]map[string]string
			for i := range held {
				held[i] = map[string]string{}
				for _, s := range w.Resources.lists[i].groups {
					for _, r := range s.set.List() {
						held[i][r.Name] = r.Version
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				clusters, endpoints, names := HoldingsOf(held[cds]), HoldingsOf(held[eds]), asSent(w.names)
				b.StartTimer()
				m := New(Options{Mode: Delta})
				converse(m, Ready{Resources: w.Resources})
				converse(m, Request{TypeURL: pushOrder[cds].URL, Held: clusters})
				converse(m, Request{TypeURL: pushOrder[eds].URL, Subscribe: names, Held: endpoints})
				converse(m, Request{TypeURL: pushOrder[lds].URL, Held: HoldingsOf(held[lds])})
				converse(
					m,
					Request{TypeURL: pushOrder[rds].URL, Subscribe: []string{"80"}, Held: HoldingsOf(held[rds])},
				)
			}
		})
	}
}

// TestReconnectedWithAll checks that the report of a client that holds the current version of all
// resources is compared as a whole: no index of its names is built.
func TestReconnectedWithAll(t *testing.T) {
	w := newBenchResources(200, 1, 1)
	held := map[string]string{}
	for _, r := range w.Resources.lists[eds].groups[0].set.List() {
		held[r.Name] = r.Version
	}
	for _, stale := range []bool{false, true} {
		if stale {
			held[w.names[7]] = "stale"
		}
		endpoints := HoldingsOf(held)
		m := New(Options{Mode: Delta})
		converse(m, Ready{Resources: w.Resources})
		converse(m, Request{TypeURL: pushOrder[cds].URL})
		var sent []string
		for _, a := range m.Step(Request{TypeURL: pushOrder[eds].URL, Subscribe: asSent(w.names), Held: endpoints}) {
			if s, ok := a.(Send); ok {
				for _, p := range s.Parts {
					sent = append(sent, namesOf(p)...)
				}
			}
		}
		var want []string
		if stale {
			want = []string{w.names[7]}
		}
		if !slices.Equal(sent, want) {
			t.Errorf("stale %t: sent %v, want %v", stale, sent, want)
		}
		if indexed := endpoints.slots != nil; indexed != stale {
			t.Errorf("stale %t: an index of the held names was built: %t", stale, indexed)
		}
	}
}

// BenchmarkMemory measures how many bytes an idle stream uses beside what streams share: after a
// cold connect, and after some pushes.
func BenchmarkMemory(b *testing.B) {
	for _, mode := range []Mode{Delta, SotW} {
		b.Run(mode.String(), func(b *testing.B) {
			var perStream float64
			for b.Loop() {
				perStream = float64(memoryOf(mode, 4000, 500)) / 500
			}
			b.ReportMetric(perStream, "B/stream")
		})
	}
}

// memoryOf returns the bytes that each of n idle streams uses.
func memoryOf(mode Mode, services, streams int) int64 {
	one, two := newBenchResources(services, 1, 1), newBenchResources(services+1, 2, 3)
	before := heap()
	machines := make([]*Machine, streams)
	for i := range machines {
		machines[i] = connected(one, mode, asSent(one.names))
		for j, w := range []benchResources{two, one, two, one} {
			converse(machines[i], Ready{Resources: w.Resources})
			if j%2 == 0 {
				converse(
					machines[i],
					Request{
						TypeURL:   pushOrder[eds].URL,
						Nonce:     "stale",
						Subscribe: []string{strings.Clone(two.names[services])},
					},
				)
			} else {
				converse(
					machines[i],
					Request{TypeURL: pushOrder[eds].URL, Nonce: "stale", Unsubscribe: []string{two.names[services]}},
				)
			}
		}
		converse(machines[i], Tick{})
	}
	used := heap() - before
	runtime.KeepAlive(machines)
	runtime.KeepAlive(one)
	runtime.KeepAlive(two)
	return used
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestMemory checks that an idle stream uses a small part of the memory that a proxy may cost, most
// of which is reserved for its connection.
func TestMemory(t *testing.T) {
	for _, mode := range []Mode{Delta, SotW} {
		if each := memoryOf(mode, 1000, 200) / 200; each > 2048 {
			t.Errorf("an idle %s stream uses %d bytes, want at most 2048", mode, each)
		}
	}
}
