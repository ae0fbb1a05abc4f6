package push_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// BenchmarkFanOut measures the time from a change of one ClusterLoadAssignment of 1,000 until 500
// in-memory streams have received and acknowledged it. The streams belong to one class, or to 50.
func BenchmarkFanOut(b *testing.B) {
	for _, classes := range []int{1, 50} {
		b.Run(fmt.Sprintf("%dclasses", classes), func(b *testing.B) {
			m, gen := pushtest.New(b, 1000), new(pushtest.Generators)
			p := push.New(push.Options{Generators: gen.Table()})
			m.Publish = p.Publish
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { p.Run(ctx) })
			p.Publish(m.Current(), everything())

			const streams = 500
			var arrived sync.WaitGroup
			clusters := make([]string, 1000)
			for i := range clusters {
				clusters[i] = pushtest.ClusterName(fmt.Sprint("s", i))
			}
			arrived.Add(2 * streams) // CDS and EDS
			for i := range streams {
				c := p.Connect(pushtest.Proxy(i, fmt.Sprint("ns", i%classes)), stream.Delta, "bench")
				c.Request(stream.Request{TypeURL: api.ClusterType})
				c.Request(stream.Request{TypeURL: api.EndpointType, Subscribe: clusters})
				running.Go(func() {
					defer c.Close()
					for {
						s, err := c.Next(ctx)
						if err != nil {
							return
						}
						c.Sent(s, 0, 0)
						c.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce})
						arrived.Done()
					}
				})
			}
			arrived.Wait()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				arrived.Add(streams)
				m.SetEndpoints("s1", fmt.Sprintf("10.7.%d.%d", i/250%250, i%250))
				arrived.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/streams, "ns/stream")
			cancel()
			running.Wait()
		})
	}
}

// BenchmarkDistribution measures how long it takes to compute how many of 5,000 proxies, in 50
// classes with 1,000 clusters each, have acknowledged one object or 100 objects.
func BenchmarkDistribution(b *testing.B) {
	m, gen := pushtest.New(b, 1000), new(pushtest.Generators)
	p := push.New(push.Options{Generators: gen.Table()})
	m.Publish = p.Publish
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	p.Publish(m.Current(), everything())
	const streams, classes = 5000, 50
	var arrived sync.WaitGroup
	arrived.Add(2 * streams) // CDS and LDS
	for i := range streams {
		c := p.Connect(pushtest.Proxy(i, fmt.Sprint("ns", i%classes)), stream.Delta, "bench")
		c.Request(stream.Request{TypeURL: api.ClusterType})
		running.Go(func() {
			defer c.Close()
			for first := true; ; first = false {
				s, err := c.Next(ctx)
				if err != nil {
					return
				}
				c.Sent(s, 0, 0)
				c.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce})
				if first {
					c.Request(stream.Request{TypeURL: api.ListenerType})
				}
				arrived.Done()
			}
		})
	}
	arrived.Wait()
	for _, n := range []int{1, 100} {
		objects := map[config.Key]struct{}{}
		for i := range n {
			objects[config.Key{Kind: api.Service, Namespace: "default", Name: fmt.Sprint("s", i)}] = struct{}{}
		}
		b.Run(fmt.Sprintf("%dobjects", n), func(b *testing.B) {
			for b.Loop() {
				if d := p.Reports().Distribution(
					objects,
				); d.Reach[service] != (push.Reach{Proxies: streams, Acknowledged: streams}) {
					b.Fatalf("Reach = %+v", d.Reach[service])
				}
			}
		})
	}
	cancel()
	running.Wait()
}
