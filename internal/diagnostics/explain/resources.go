package explain

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Resources is what one proxy has.
type Resources struct {
	// Listeners and Clusters are all of them (LDS, CDS).
	Listeners, Clusters []*resource.Resource
	// Named gives a resource of the types that proxies ask for by name (RDS, EDS, ECDS); nil if there is none.
	Named func(typeURL, name string) *resource.Resource
	// Object gives an object, for what only it knows: which of its rules a route came of. It may be nil, or give nil.
	Object func(config.Key) *config.Config
}

// decoded is a resource with what it was made of.
type decoded[T proto.Message] struct {
	message T
	from    []config.Key
}

// decode reads a resource into m.
func decode[T proto.Message](r *resource.Resource, m T) (decoded[T], error) {
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return decoded[T]{}, fmt.Errorf("decoding %s %q: %w", api.ShortType(r.TypeURL), r.Name, err)
	}
	return decoded[T]{m, r.From}, nil
}

func (r *Resources) listeners() ([]decoded[*listenerv3.Listener], error) {
	list := make([]decoded[*listenerv3.Listener], len(r.Listeners))
	for i, l := range r.Listeners {
		d, err := decode(l, new(listenerv3.Listener))
		if err != nil {
			return nil, err
		}
		list[i] = d
	}
	return list, nil
}

// cluster finds a cluster by name; ok is false if there is none.
func (r *Resources) cluster(name string) (c decoded[*clusterv3.Cluster], ok bool, err error) {
	for _, res := range r.Clusters {
		if res.Name == name {
			c, err = decode(res, new(clusterv3.Cluster))
			return c, err == nil, err
		}
	}
	return c, false, nil
}

// named finds a resource by type and name, and decodes it into m.
func named[T proto.Message](r *Resources, typeURL, name string, m T) (d decoded[T], ok bool, err error) {
	if r.Named == nil {
		return d, false, nil
	}
	res := r.Named(typeURL, name)
	if res == nil {
		return d, false, nil
	}
	d, err = decode(res, m)
	return d, err == nil, err
}

func (r *Resources) routeConfiguration(name string) (decoded[*routev3.RouteConfiguration], bool, error) {
	return named(r, api.RouteType, name, new(routev3.RouteConfiguration))
}

func (r *Resources) assignment(name string) (decoded[*endpointv3.ClusterLoadAssignment], bool, error) {
	return named(r, api.EndpointType, name, new(endpointv3.ClusterLoadAssignment))
}

func (r *Resources) extension(name string) (decoded[*corev3.TypedExtensionConfig], bool, error) {
	return named(r, api.ExtensionType, name, new(corev3.TypedExtensionConfig))
}
