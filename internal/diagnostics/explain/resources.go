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

// Resources are the resources of one proxy.
type Resources struct {
	// Listeners and Clusters are all resources of LDS and CDS.
	Listeners, Clusters []*resource.Resource
	// Named returns a resource of a type with subscriptions by name (RDS, EDS, ECDS), or nil if it
	// does not exist.
	Named func(typeURL, name string) *resource.Resource
	// Object returns a config object, or nil if it is unknown. It serves to find the rule that
	// produced a route. Object itself may be nil.
	Object func(config.Key) *config.Config
}

// decoded is a decoded resource with the keys of its source objects.
type decoded[T proto.Message] struct {
	message T
	from    []config.Key
}

// decodeResource unmarshals a resource into m, and returns it with the objects it is generated
// from. An error names the type and the resource.
func decodeResource[T proto.Message](r *resource.Resource, m T) (decoded[T], error) {
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return decoded[T]{}, fmt.Errorf("decoding %s %q: %w", api.ShortType(r.TypeURL), r.Name, err)
	}
	return decoded[T]{m, r.From}, nil
}

// decodeListeners returns all listeners in their order, or the first error if any cannot be
// decoded.
func (r *Resources) decodeListeners() ([]decoded[*listenerv3.Listener], error) {
	list := make([]decoded[*listenerv3.Listener], len(r.Listeners))
	for i, l := range r.Listeners {
		d, err := decodeResource(l, new(listenerv3.Listener))
		if err != nil {
			return nil, err
		}
		list[i] = d
	}
	return list, nil
}

// decodeCluster returns the cluster with a name. ok is false without an error if it does not exist,
// and with an error if it cannot be decoded.
func (r *Resources) decodeCluster(name string) (c decoded[*clusterv3.Cluster], ok bool, err error) {
	for _, res := range r.Clusters {
		if res.Name == name {
			c, err = decodeResource(res, new(clusterv3.Cluster))
			return c, err == nil, err
		}
	}
	return c, false, nil
}

// decodeNamed decodes the resource with a type and name into m. ok is false without an error if it
// does not exist, and with an error if it cannot be decoded.
func decodeNamed[T proto.Message](r *Resources, typeURL, name string, m T) (d decoded[T], ok bool, err error) {
	if r.Named == nil {
		return d, false, nil
	}
	res := r.Named(typeURL, name)
	if res == nil {
		return d, false, nil
	}
	d, err = decodeResource(res, m)
	return d, err == nil, err
}

// routeConfiguration returns the RouteConfiguration with a name, with the results of decodeNamed.
func (r *Resources) routeConfiguration(name string) (decoded[*routev3.RouteConfiguration], bool, error) {
	return decodeNamed(r, api.RouteType, name, new(routev3.RouteConfiguration))
}

// decodeAssignment returns the ClusterLoadAssignment with a name, with the results of decodeNamed.
func (r *Resources) decodeAssignment(name string) (decoded[*endpointv3.ClusterLoadAssignment], bool, error) {
	return decodeNamed(r, api.EndpointType, name, new(endpointv3.ClusterLoadAssignment))
}

// decodeExtension returns the extension configuration with a name, with the results of decodeNamed.
func (r *Resources) decodeExtension(name string) (decoded[*corev3.TypedExtensionConfig], bool, error) {
	return decodeNamed(r, api.ExtensionType, name, new(corev3.TypedExtensionConfig))
}
