package stream

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/resource"
)

// benchWorld is a mesh of n services: a cluster and endpoints each, of which edit differ from those of version 0.
func benchWorld(n, version, edits int) *World {
	var clusters, endpoints []*resource.Resource
	var names []string
	for i := range n {
		name := fmt.Sprintf("outbound|80||service-%05d.default.svc.cluster.local", i)
		body := "0"
		if i < edits {
			body = fmt.Sprint(version)
		}
		names = append(names, name)
		clusters = append(clusters, resource.FromBytes(name, pushOrder[cds].url, []byte("c")))
		endpoints = append(endpoints, resource.FromBytes(name, pushOrder[eds].url, []byte(body)))
	}
	c, err := resource.NewSet(clusters)
	if err != nil {
		panic(err)
	}
	e, err := resource.NewSet(endpoints)
	if err != nil {
		panic(err)
	}
	return NewWorld(map[string][]*Shelf{
		pushOrder[cds].url: {NewShelf(c)}, pushOrder[eds].url: {NewNamedShelf(e, names)},
	}, ownEndpoints)
}

// connected makes a Machine whose client has all of the World.
func connected(w *World, intern func([]string) ([]string, any)) *Machine {
	m := New(Options{Mode: Delta, Intern: intern})
	m.Step(Ready{World: w})
	m.Step(Request{TypeURL: pushOrder[cds].url})
	m.Step(Sent{})
	m.Step(Request{TypeURL: pushOrder[eds].url, Subscribe: w.shelves[eds][0].Asked()})
	m.Step(Sent{})
	m.Step(Request{TypeURL: pushOrder[cds].url, Nonce: "1"})
	m.Step(Request{TypeURL: pushOrder[eds].url, Nonce: "2"})
	return m
}

// BenchmarkEndpointChange is one stream's part of a push of one changed ClusterLoadAssignment among n: a World, a Send, its
// Sent and its ACK.
func BenchmarkEndpointChange(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			worlds := [2]*World{benchWorld(n, 1, 1), benchWorld(n, 2, 1)}
			m := connected(worlds[0], nil)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				for _, a := range m.Step(Ready{World: worlds[i%2]}) {
					m.Step(Sent{})
					m.Step(Request{TypeURL: pushOrder[eds].url, Nonce: a.(Send).Nonce})
				}
			}
		})
	}
}

// BenchmarkConnect is a cold connect up to the endpoints, with alike streams before it.
func BenchmarkConnect(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := benchWorld(n, 1, 1)
			names := w.shelves[eds][0].Asked()
			b.ReportAllocs()
			for b.Loop() {
				connected(w, func([]string) ([]string, any) { return names, nil })
			}
		})
	}
}

// BenchmarkReconnect is a client that comes with everything, and is sent nothing.
func BenchmarkReconnect(b *testing.B) {
	w := benchWorld(1000, 1, 1)
	names := w.shelves[eds][0].Asked()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		held := [2]map[string]string{{}, {}}
		for i := range held {
			for _, r := range w.shelves[i][0].set.List() {
				held[i][r.Name] = r.Version
			}
		}
		b.StartTimer()
		m := New(Options{Mode: Delta, Intern: func([]string) ([]string, any) { return names, nil }})
		m.Step(Ready{World: w})
		m.Step(Request{TypeURL: pushOrder[cds].url, Held: held[0]})
		m.Step(Sent{})
		m.Step(Request{TypeURL: pushOrder[eds].url, Subscribe: names, Held: held[1]})
	}
}
