package perf_test

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/perf/inmemory"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// sizes are the numbers of services that parts are measured with.
func sizes() []int { return []int{1000, 10000} }

// bySize runs a benchmark for meshes of each size, without proxies.
func bySize(b *testing.B, run func(b *testing.B, m *workload.Mesh, p *inmemory.Plane)) {
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("%dservices", n), func(b *testing.B) {
			m := newMesh(b, workload.Params{Services: n, Endpoints: 2, Routes: 4, Namespaces: 20, Scope: workload.Everything})
			p := newPlane(b, m)
			b.ReportAllocs()
			run(b, m, p)
		})
	}
}

// changes are the kinds of change whose cost is measured.
func changes() []workload.Change {
	return []workload.Change{workload.EndpointEdit, workload.RouteEdit, workload.RuleEdit, workload.AddService, workload.MetadataEdit}
}

// build makes the i-th change of a kind and applies it to the snapshot.
func build(b *testing.B, m *workload.Mesh, p *inmemory.Plane, c workload.Change, i int) (*snapshot.Snapshot, snapshot.Delta) {
	b.Helper()
	const marks = 20_000 // close to the maximum for endpoints; they may repeat
	e, err := m.MakeChange(c, workload.SharedNamespace, i, 1+i%marks)
	if err != nil {
		b.Fatal(err)
	}
	s, d, err := p.BuildSnapshot(e)
	if err != nil {
		b.Fatal(err)
	}
	return s, d
}

// BenchmarkApply measures the way from an object to the next snapshot: conversion and
// snapshot.Builder.Apply, including the creation of the object and its hash.
func BenchmarkApply(b *testing.B) {
	for _, c := range changes() {
		b.Run(string(c), func(b *testing.B) {
			bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
				for i := 0; b.Loop(); i++ {
					build(b, m, p, c, i)
				}
			})
		})
	}
}

// BenchmarkView measures what push needs of a View: the class of a proxy, the scope of the class,
// and whether a change affects it.
func BenchmarkView(b *testing.B) {
	b.Run("KeyFor", func(b *testing.B) {
		bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
			proxy, s := proxyOf(b, m), p.Builder.Current()
			for b.Loop() {
				view.KeyFor(s, proxy)
			}
		})
	})
	b.Run("Build", func(b *testing.B) {
		bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
			s := p.Builder.Current()
			key := view.KeyFor(s, proxyOf(b, m))
			for b.Loop() {
				view.Build(s, key)
			}
		})
	})
	b.Run("Touched", func(b *testing.B) {
		bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
			s, d := build(b, m, p, workload.RouteEdit, 0)
			v := view.Build(s, view.KeyFor(s, proxyOf(b, m)))
			for b.Loop() {
				v.IsAffectedBy(d)
			}
		})
	})
}

func proxyOf(b *testing.B, m *workload.Mesh) *mesh.Proxy {
	b.Helper()
	p, err := inmemory.Proxy(nodesOf(b, m, 1)[0])
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkTranslate generates all resources of one class of proxies. "first" has an empty memo,
// "again" a complete one; the others are after a change of that kind, whose own cost is not
// measured.
func BenchmarkTranslate(b *testing.B) {
	b.Run("first", func(b *testing.B) {
		bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
			s := p.Builder.Current()
			key := view.KeyFor(s, proxyOf(b, m))
			for b.Loop() {
				everything(translate.NewTable(translate.Options{}), view.Build(s, key))
			}
		})
	})
	b.Run("again", func(b *testing.B) {
		bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
			s := p.Builder.Current()
			key := view.KeyFor(s, proxyOf(b, m))
			held := everything(p.Table, view.Build(s, key))
			for b.Loop() {
				held = everything(p.Table, view.Build(s, key))
			}
			b.ReportMetric(float64(len(held)), "resources")
		})
	})
	for _, c := range changes() {
		b.Run(string(c), func(b *testing.B) {
			bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
				key := view.KeyFor(p.Builder.Current(), proxyOf(b, m))
				held := everything(p.Table, view.Build(p.Builder.Current(), key))
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					s, _ := build(b, m, p, c, i)
					b.StartTimer()
					held = everything(p.Table, view.Build(s, key))
				}
				b.ReportMetric(float64(len(held)), "resources")
			})
		})
	}
}

// everything generates all resources of a View, those by name as a proxy requests them. While the
// caller keeps the list, they stay in the memo.
func everything(t *translate.Table, v *view.View) []*resource.Resource {
	var list []*resource.Resource
	var clusters []string
	for _, g := range t.Generators {
		switch {
		case g.All != nil:
			made := g.All(v)
			list = append(list, made...)
			for _, r := range made {
				if g.TypeURL == api.ClusterType {
					clusters = append(clusters, r.Name)
				}
			}
		case g.TypeURL == api.EndpointType:
			for _, name := range clusters {
				if r := g.Named(v, name); r != nil {
					list = append(list, r)
				}
			}
		case g.TypeURL == api.RouteType:
			if r := g.Named(v, "80"); r != nil {
				list = append(list, r)
			}
		}
	}
	return list
}

// BenchmarkDiff computes the difference between the clusters before and after an edit of one
// DestinationRule.
func BenchmarkDiff(b *testing.B) {
	bySize(b, func(b *testing.B, m *workload.Mesh, p *inmemory.Plane) {
		key := view.KeyFor(p.Builder.Current(), proxyOf(b, m))
		clusters := p.Table.Generators[0].All
		before, err := resource.NewSet(clusters(view.Build(p.Builder.Current(), key)))
		if err != nil {
			b.Fatal(err)
		}
		s, _ := build(b, m, p, workload.RuleEdit, 0)
		after, err := resource.NewSet(clusters(view.Build(s, key)))
		if err != nil {
			b.Fatal(err)
		}
		if n := len(resource.Compare(before, after).Updated); n == 0 || n > 10 {
			b.Fatalf("%d clusters differ", n)
		}
		for b.Loop() {
			resource.Compare(before, after)
		}
		b.ReportMetric(float64(after.Len()), "resources")
	})
}

// BenchmarkFanOut is from an object to the acknowledgements of all proxies, without sockets: in a mesh of 1,000 services in 20
// namespaces. The time for each proxy is ns/proxy.
func BenchmarkFanOut(b *testing.B) {
	for _, c := range []struct {
		change  workload.Change
		typeURL string
	}{
		{workload.EndpointEdit, api.EndpointType}, {workload.RouteEdit, api.RouteType}, {workload.RuleEdit, api.ClusterType},
	} {
		for _, proxies := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%dproxies", c.change, proxies), func(b *testing.B) {
				m := newMesh(b, workload.Params{Services: 1000, Endpoints: 2, Routes: 4, Namespaces: 20, Scope: workload.Everything})
				p := newPlane(b, m)
				connect(b, p, nodesOf(b, m, proxies))
				b.ReportAllocs()
				encoded := p.EncodedCount(c.typeURL)
				for i := 0; b.Loop(); i++ {
					edit(b, p, m, c.change, i, c.typeURL, proxies)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*proxies), "ns/proxy")
				b.ReportMetric(float64(p.EncodedCount(c.typeURL)-encoded)/float64(b.N), "encoded")
			})
		}
	}
}
