package gatewayapi

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// proxiesReady returns a failed verdict if proxies are deployed for the Gateway and none of them is
// ready, so that requests to its addresses would be refused. It passes if no proxies are deployed
// here.
func (c *Converter) proxiesReady(g *gateway) verdict {
	if !g.isDeployed(c.options) {
		return verdict{}
	}
	for k := range c.objects.slices.Values(serviceKey(*g.service)) {
		if hasReady(specOf[*discoveryv1.EndpointSlice](c.objects.all[k])) {
			return verdict{}
		}
	}
	return verdict{
		string(gatewayv1.GatewayReasonNoResources),
		fmt.Sprintf("no proxy of Service %s is ready", g.service.Name),
	}
}

// markSlice updates the index of EndpointSlices by Service. If the slice begins or ceases to have
// ready endpoints, it marks the statuses of the Gateways that refer to its Service. If its Service
// changes, it does so for the old and the new one. was or is is nil if it is new or deleted.
func (c *Converter) markSlice(k config.Key, was, is *discoveryv1.EndpointSlice) {
	before, now := sliceService(was), sliceService(is)
	if was != nil {
		c.objects.slices.Remove(before, k)
	}
	if is != nil {
		c.objects.slices.Add(now, k)
	}
	if before == now && hasReady(was) == hasReady(is) {
		return
	}
	for _, service := range []config.Key{before, now} {
		for x := range c.indexes.reference.Values(service) {
			if x.Kind == api.KubernetesGateway {
				c.dirty.statuses[nameOf(x)] = struct{}{}
			}
		}
	}
}

// sliceService returns the key of the Service of an EndpointSlice, or the zero key if s is nil.
func sliceService(s *discoveryv1.EndpointSlice) config.Key {
	if s == nil {
		return config.Key{}
	}
	return serviceKey(name{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]})
}

// hasReady reports whether an EndpointSlice has an endpoint that is ready or has no Ready
// condition. It returns false if s is nil.
func hasReady(s *discoveryv1.EndpointSlice) bool {
	if s == nil {
		return false
	}
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			return true
		}
	}
	return false
}
