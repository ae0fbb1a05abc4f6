package patch

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// task is a resource and the patches that may find something in it: all that an outcome depends on.
type task struct {
	resource *resource.Resource
	patches  *list
	gateway  bool
}

// patchCluster applies patches that have been chosen for the cluster, so they all match.
func patchCluster(k task) *outcome {
	l, t := k.patches, make(tallies, len(k.patches.patches))
	for i, p := range l.patches {
		if p.removes() {
			t.did(i, 1)
			return &outcome{tallies: t}
		}
	}
	c := new(clusterv3.Cluster)
	if err := proto.Unmarshal(k.resource.Body, c); err != nil {
		return t.unreadable(k.resource, l, err)
	}
	before := c // mergedCluster copies
	for i, p := range l.patches {
		next, err := mergedCluster(c, p)
		if err != nil {
			t.fail(i, err)
			continue
		}
		t.did(i, 1)
		c = next
	}
	if err := alignALPN(before, c); err != nil {
		return t.unreadable(k.resource, l, err)
	}
	return t.encoded(k.resource, l, c)
}

var errRename = errors.New("MERGE cannot change the name: remove the object and add one of that name")

func mergedCluster(c *clusterv3.Cluster, p *patch) (*clusterv3.Cluster, error) {
	value, ok := p.value.(*clusterv3.Cluster)
	switch {
	case !ok:
		return nil, errNoValue
	case value.GetName() != "" && value.GetName() != c.GetName():
		return nil, errRename
	case value.GetTransportSocket() == nil:
		return merged(c, p)
	}
	next := proto.CloneOf(c)
	rest := proto.CloneOf(value)
	rest.TransportSocket = nil
	merge(next, rest, p.replacesLists())
	if err := mergeClusterSocket(next, value.GetTransportSocket(), p.replacesLists()); err != nil {
		return nil, err
	}
	if err := check(next); err != nil {
		return nil, err
	}
	return next, nil
}

// mergeClusterSocket merges a transport socket into the cluster's, or into those of its matches that have its name: a
// cluster has one or the other.
func mergeClusterSocket(c *clusterv3.Cluster, socket *corev3.TransportSocket, lists bool) error {
	matches := c.GetTransportSocketMatches()
	if len(matches) == 0 {
		next, err := mergedSocket(c.GetTransportSocket(), socket, lists)
		c.TransportSocket = next
		return err
	}
	found := false
	for _, m := range matches {
		if m.GetTransportSocket().GetName() != socket.GetName() {
			continue
		}
		next, err := mergedSocket(m.GetTransportSocket(), socket, lists)
		if err != nil {
			return err
		}
		m.TransportSocket, found = next, true
	}
	if !found {
		return fmt.Errorf("none of the cluster's transport_socket_matches has a transport socket %q", socket.GetName())
	}
	return nil
}

// mergedSocket gives dst with src merged into it, also into what it has packed; src itself if dst is another socket.
func mergedSocket(dst, src *corev3.TransportSocket, lists bool) (*corev3.TransportSocket, error) {
	if dst.GetName() != src.GetName() || dst.GetTypedConfig() == nil || src.GetTypedConfig() == nil {
		return proto.CloneOf(src), nil
	}
	typed, err := mergedTyped(dst.GetTypedConfig(), src.GetTypedConfig(), lists)
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{Name: dst.GetName(), ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: typed}}, nil
}

var errNoValue = errors.New("the patch has no value")

// unreadable is the outcome where a resource cannot be decoded: it stays as it is.
func (t tallies) unreadable(r *resource.Resource, l *list, err error) *outcome {
	clear(t)
	for i := range t {
		t.fail(i, fmt.Errorf("decode %q: %w", r.Name, err))
	}
	return t.finish(r, l, r.Name, r.Body)
}

// encoded is the outcome where m is what has become of a resource.
func (t tallies) encoded(r *resource.Resource, l *list, m proto.Message) *outcome {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return t.unreadable(r, l, err)
	}
	return t.finish(r, l, r.Name, body)
}
