package patch

import (
	"cmp"
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// task is a resource with the patches that may match something in it: everything that an outcome
// depends on.
type task struct {
	resource *resource.Resource
	patches  *list
	gateway  bool
}

// patchCluster applies the patches of k, which all match the cluster. If one removes the cluster,
// the outcome has no resource. A patch that fails is skipped, and the failure recorded in the
// outcome. The ALPN names follow a changed HTTP version (alignALPN). If that fails, or the cluster
// cannot be decoded or encoded, it is unchanged and all patches fail.
func patchCluster(k task) *outcome {
	l, t := k.patches, make(tallies, len(k.patches.patches))
	for i, p := range l.patches {
		if p.removes() {
			t.recordEffects(i, 1)
			return &outcome{tallies: t}
		}
	}
	c := new(clusterv3.Cluster)
	if err := proto.Unmarshal(k.resource.Body, c); err != nil {
		return t.unreadable(k.resource, l, err)
	}
	before := c // mergeCluster does not modify it.
	for i, p := range l.patches {
		next, err := mergeCluster(c, p)
		if err != nil {
			t.fail(i, err)
			continue
		}
		t.recordEffects(i, 1)
		c = next
	}
	if err := alignALPN(before, c); err != nil {
		return t.unreadable(k.resource, l, err)
	}
	return t.encodeOutcome(k.resource, l, c)
}

var errRename = errors.New("MERGE cannot change the name: remove the object and add one of that name")

// mergeCluster returns a copy of c with the value of a patch merged into it. It returns an error if
// the patch has no value, renames the cluster, its transport socket fits none, or the result is
// invalid.
func mergeCluster(c *clusterv3.Cluster, p *patch) (*clusterv3.Cluster, error) {
	value, ok := p.value.(*clusterv3.Cluster)
	switch {
	case !ok:
		return nil, errNoValue
	case value.GetName() != "" && value.GetName() != c.GetName():
		return nil, errRename
	case value.GetTransportSocket() == nil:
		return mergeMessage(c, p)
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

// plaintextName is the name of the transport socket that a cluster has by default.
const plaintextName = "envoy.transport_sockets.raw_buffer"

// mergeClusterSocket merges a transport socket into the cluster's own; lists are replaced if lists
// is set, else appended to. If c has transport_socket_matches, it merges the socket only into
// sockets of the same name. These are sockets of the matches, and the cluster's own, for endpoints
// that no match selects. It modifies c, and returns an error if no socket has the name or the
// configs cannot be merged.
func mergeClusterSocket(c *clusterv3.Cluster, socket *corev3.TransportSocket, lists bool) error {
	matches := c.GetTransportSocketMatches()
	found := len(matches) == 0 ||
		cmp.Or(c.GetTransportSocket().GetName(), plaintextName) == socket.GetName()
	if found {
		next, err := mergeSocket(c.GetTransportSocket(), socket, lists)
		if err != nil {
			return err
		}
		c.TransportSocket = next
	}
	for _, m := range matches {
		if m.GetTransportSocket().GetName() != socket.GetName() {
			continue
		}
		next, err := mergeSocket(m.GetTransportSocket(), socket, lists)
		if err != nil {
			return err
		}
		m.TransportSocket, found = next, true
	}
	if !found {
		return fmt.Errorf("the cluster has transport_socket_matches, but none with a transport socket %q", socket.GetName())
	}
	return nil
}

// mergeSocket returns dst with src merged into it, including its packed config; lists are replaced
// if lists is set, else appended to. If the sockets have different names, or one has no config, it
// returns a copy of src. It returns an error if the configs cannot be merged.
func mergeSocket(dst, src *corev3.TransportSocket, lists bool) (*corev3.TransportSocket, error) {
	if dst.GetName() != src.GetName() || dst.GetTypedConfig() == nil || src.GetTypedConfig() == nil {
		return proto.CloneOf(src), nil
	}
	typed, err := mergeTyped(dst.GetTypedConfig(), src.GetTypedConfig(), lists)
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name:       dst.GetName(),
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: typed},
	}, nil
}

var errNoValue = errors.New("the patch has no value")

// unreadable returns the outcome for a resource that cannot be decoded or encoded: the resource is
// unchanged, and all patches fail with err.
func (t tallies) unreadable(r *resource.Resource, l *list, err error) *outcome {
	clear(t)
	for i := range t {
		t.fail(i, fmt.Errorf("decode %q: %w", r.Name, err))
	}
	return t.finish(r, l, r.Name, r.Body)
}

// encodeOutcome returns the outcome with m as the patched resource. If m cannot be encoded, r is
// unchanged and all patches fail.
func (t tallies) encodeOutcome(r *resource.Resource, l *list, m proto.Message) *outcome {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return t.unreadable(r, l, err)
	}
	return t.finish(r, l, r.Name, body)
}
