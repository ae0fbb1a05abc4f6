package inmemory

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// client is one proxy, which speaks delta.
type client struct {
	plane  *Plane
	stream *push.Client
	asked  map[string]bool
}

// Connect brings proxies in. Each sends everything that a fresh sidecar does. Use [Plane.Expect] to
// know when they are done: the last thing that each is sent is one response with routes.
func (p *Plane) Connect(nodes []workload.Node) error {
	for _, n := range nodes {
		proxy, err := Proxy(n)
		if err != nil {
			return err
		}
		c := &client{plane: p, stream: p.Pusher.Connect(proxy, stream.Delta, "memory"), asked: map[string]bool{}}
		p.clients = append(p.clients, c)
		p.running.Go(c.runClient)
	}
	return nil
}

// Proxy reads a node as the server does.
func Proxy(n workload.Node) (*mesh.Proxy, error) {
	var node corev3.Node
	if err := proto.Unmarshal(n.Bytes, &node); err != nil {
		return nil, fmt.Errorf("read a node: %w", err)
	}
	p, err := mesh.ParseNodeID(node.Id)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(node.Metadata)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", node.Id, err)
	}
	p.Metadata, _ = mesh.ParseNodeMetadata(raw)
	for _, text := range p.Metadata.InstanceIPs {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(p.Addresses, a) {
			p.Addresses = append(p.Addresses, a)
		}
	}
	p.Cluster, p.ClusterID, p.Labels = node.Cluster, mesh.ClusterID(p.Metadata.ClusterID), p.Metadata.Labels
	p.Locality = mesh.Locality{Region: node.Locality.GetRegion(), Zone: node.Locality.GetZone()}
	return &p, nil
}

func (c *client) runClient() {
	defer c.stream.Close()
	c.sendRequest(stream.Request{TypeURL: api.ClusterType})
	for {
		s, err := c.stream.Next(c.plane.ctx)
		if err != nil {
			if c.plane.ctx.Err() == nil && !errors.Is(err, push.ErrClosed) {
				c.plane.recordFault(err)
			}
			return
		}
		size := 0
		for _, part := range s.Parts {
			size += c.plane.encodePart(s.TypeURL, part)
		}
		c.stream.Sent(s, size, 0)
		c.stream.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce})
		if err := c.requestReferenced(s); err != nil {
			c.plane.recordFault(err)
			return
		}
		c.plane.countResponse(s.TypeURL)
	}
}

// requestReferenced requests the resources that a response refers to.
func (c *client) requestReferenced(s *stream.Send) error {
	var of string
	switch s.TypeURL {
	case api.ClusterType:
		of = api.EndpointType
	case api.ListenerType:
		of = api.RouteType
	case api.EndpointType:
		if !c.asked[api.ListenerType] {
			c.sendRequest(stream.Request{TypeURL: api.ListenerType})
		}
		return nil
	default:
		return nil
	}
	for _, part := range s.Parts {
		names, err := c.plane.library.neededNames(s.TypeURL, part)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			c.sendRequest(stream.Request{TypeURL: of, Subscribe: names})
		}
	}
	return nil
}

func (c *client) sendRequest(r stream.Request) {
	c.asked[r.TypeURL] = true
	c.stream.Request(r)
}

// wireForm is the encoded form that the server would cache: their bytes, small ones copied.
type wireForm struct {
	copied []byte
	bodies [][]byte
	size   int
}

// encodePart returns the size of resources on the wire, and encodes them on the first call.
func (p *Plane) encodePart(typeURL string, part *stream.Payload) int {
	const small = 512
	form := part.Form(stream.Delta, func(list []*resource.Resource) any {
		f := new(wireForm)
		for _, r := range list {
			f.copied = append(append(f.copied, r.Name...), r.Version...)
			if len(r.Body) <= small {
				f.copied = append(f.copied, r.Body...)
			} else {
				f.bodies = append(f.bodies, r.Body)
			}
			f.size += len(r.Name) + len(r.Version) + len(r.TypeURL) + len(r.Body)
		}
		p.mu.Lock()
		p.encoded[typeURL] += len(list)
		p.mu.Unlock()
		return f
	})
	return form.(*wireForm).size
}

// library remembers what resources refer to, so that proxies cost next to nothing.
type library struct {
	payloads sync.Map // *stream.Payload to []string
}

// neededNames returns the sorted EDS or RDS names that resources need. The list is shared.
func (l *library) neededNames(typeURL string, part *stream.Payload) ([]string, error) {
	if known, ok := l.payloads.Load(part); ok {
		return known.([]string), nil
	}
	var names []string
	for _, r := range part.Resources() {
		parsed, err := wire.ParseResource(wire.TypeOf([]byte(typeURL)), r.Body)
		if err != nil {
			return nil, fmt.Errorf("read %s %q: %w", typeURL, r.Name, err)
		}
		if parsed.Endpoints != "" {
			names = append(names, parsed.Endpoints)
		}
		names = append(names, parsed.Routes...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	l.payloads.Store(part, names)
	return names, nil
}
