package patch

import (
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// AddedClusters returns the clusters that the patches in names add to a View, or nil without
// patches. generated returns all other clusters, not patched; it is called only if the name of an
// added cluster may be the name of a generated cluster. An addition whose name is taken is left
// out.
func (p *Pass) AddedClusters(
	v *view.View,
	names snapshot.PatchList,
	generated func() []*resource.Resource,
) []*resource.Resource {
	s := p.set(v, names)
	if s == nil {
		return nil
	}
	return p.addedClusters(s, func() []*resource.Resource { return p.Clusters(v, names, generated()) }, nil)
}

// AddedListeners returns the listeners that the patches in names add to a View, or nil without
// patches. generated returns all other listeners, not patched; it is called only if a patch adds
// one. An addition without a name, or with a name or address that is taken, is left out.
func (p *Pass) AddedListeners(
	v *view.View,
	names snapshot.PatchList,
	generated func() []*resource.Resource,
) []*resource.Resource {
	s := p.set(v, names)
	if s == nil {
		return nil
	}
	return p.addedListeners(s, func() []*resource.Resource { return p.Listeners(v, names, generated()) }, nil)
}

// reportFunc receives the result of a patch of an object: nil if it succeeded, or why not.
type reportFunc func(p *patch, err error)

// addedClusters returns the clusters that patches add. A cluster whose name is taken is left out.
// others returns the other clusters; it is called only if an added name may be generated. If tell
// is not nil, it is called with each patch's result.
func (p *Pass) addedClusters(s *set, others func() []*resource.Resource, tell reportFunc) []*resource.Resource {
	var list []*resource.Resource
	taken := map[string]bool{}
	asked := false
	for _, x := range s.additions(networking.EnvoyFilter_CLUSTER) {
		c, ok := x.value.(*clusterv3.Cluster)
		if !ok {
			continue
		}
		if !asked && maybeGenerated(c.GetName()) {
			asked = true
			for _, r := range others() {
				taken[r.Name] = true
			}
		}
		var err error
		if taken[c.GetName()] {
			err = fmt.Errorf("there is a cluster %q already", c.GetName())
		} else {
			taken[c.GetName()] = true
			list = append(list, p.added.Get(addition{x, c.GetName(), api.ClusterType}))
		}
		if tell != nil {
			tell(x, err)
		}
	}
	return list
}

// maybeGenerated reports whether a cluster with the name may be generated: a built-in one, or one
// with a name in the form of mesh.ClusterName or of the server names of AUTO_PASSTHROUGH gateways.
func maybeGenerated(name string) bool {
	switch name {
	case mesh.BlackHoleCluster, mesh.PassthroughCluster, mesh.InboundPassthroughCluster, mesh.DynamicDNSCluster,
		mesh.CredentialServerCluster:
		return true
	default:
		_, err := mesh.ParseClusterName(name)
		return err == nil || strings.HasPrefix(name, "outbound_.")
	}
}

// addedListeners returns the listeners that patches add. A listener without a name, or with the
// name or address of another one, is left out. others returns the other listeners; it is called
// only if a patch adds one. If tell is not nil, it is called with each patch's result.
func (p *Pass) addedListeners(s *set, others func() []*resource.Resource, tell reportFunc) []*resource.Resource {
	var list []*resource.Resource
	names, places := map[string]bool{}, map[bindAddress]string{}
	for i, x := range s.additions(networking.EnvoyFilter_LISTENER) {
		l, ok := x.value.(*listenerv3.Listener)
		if !ok {
			continue
		}
		if i == 0 {
			for _, r := range others() {
				names[r.Name], places[bindAddressOf(headOf(r.Body).address)] = true, r.Name
			}
		}
		var err error
		at := bindAddressOf(headOf(x.encoded).address)
		switch other, taken := places[at]; {
		case l.GetName() == "":
			err = errNameless
		case names[l.GetName()]:
			err = fmt.Errorf("there is a listener %q already", l.GetName())
		case taken && at != bindAddress{}:
			err = fmt.Errorf("the listener %q has its address already", other)
		default:
			names[l.GetName()], places[at] = true, l.GetName()
			list = append(list, p.added.Get(addition{x, l.GetName(), api.ListenerType}))
		}
		if tell != nil {
			tell(x, err)
		}
	}
	return list
}

var errNameless = errors.New("a listener needs a name")

// additions returns the patches of s with operation ADD that are of type a, in their order.
func (s *set) additions(a applyTo) []*patch {
	var list []*patch
	for _, p := range s.patches {
		if p.applyTo == a && p.adds() {
			list = append(list, p)
		}
	}
	return list
}

// addition is a patch that adds a resource, with the resource's name and type.
type addition struct {
	*patch
	name, typeURL string
}

// newAddition returns the resource that a patch adds.
func newAddition(a addition) *resource.Resource {
	r := resource.FromBytes(a.name, a.typeURL, a.encoded, a.from)
	r.Parts = a.patch
	return r
}

// Extension returns the extension config name that a patch in names defines, or nil if none does.
// Filters of the View's proxies refer to it in their config_discovery. Of several definitions, the
// last one is used; a replacement without an earlier definition is ignored.
func (p *Pass) Extension(v *view.View, names snapshot.PatchList, name string) *resource.Resource {
	s := p.set(v, names)
	if s == nil {
		return nil
	}
	var found *patch
	for _, x := range s.patches {
		if c, ok := x.value.(*corev3.TypedExtensionConfig); ok && c.GetName() == name && (x.adds() || found != nil) {
			found = x
		}
	}
	if found == nil {
		return nil
	}
	return p.added.Get(addition{found, name, api.ExtensionType})
}

// reportExtensions calls tell with the result of each patch of an extension config: an error if it
// replaces nothing, otherwise nil. If a later patch adds the same name again, tell is called once
// more for the earlier one, with an error.
func (s *set) reportExtensions(tell reportFunc) {
	last := map[string]*patch{}
	for _, x := range s.patches {
		c, ok := x.value.(*corev3.TypedExtensionConfig)
		if !ok {
			continue
		}
		before := last[c.GetName()]
		switch {
		case before == nil && !x.adds():
			tell(x, fmt.Errorf("there is no extension config %q to replace", c.GetName()))
			continue
		case before != nil && x.adds():
			tell(before, fmt.Errorf("the extension config %q is defined again by %s", c.GetName(), x.from))
		}
		last[c.GetName()] = x
		tell(x, nil)
	}
}
