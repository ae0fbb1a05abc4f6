package gatewayapi

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// targetsOf returns the keys of the Services and ServiceEntries that a BackendTLSPolicy targets.
func targetsOf(c *config.Config) []config.Key {
	var list []config.Key
	if c == nil {
		return nil
	}
	for _, t := range config.Spec[*gatewayv1.BackendTLSPolicy](c).Spec.TargetRefs {
		k := config.Key{Namespace: c.Namespace, Name: string(t.Name)}
		switch {
		case t.Group == "" && t.Kind == "Service":
			k.Kind = api.Service
		case t.Group == "networking.istio.io" && t.Kind == "ServiceEntry":
			k.Kind = api.ServiceEntry
		default:
			continue
		}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// markPolicy updates the index of targets and marks a BackendTLSPolicy.
func (c *Converter) markPolicy(k config.Key, was, is []config.Key) {
	for _, t := range was {
		c.objects.policies.Remove(t, k)
	}
	for _, t := range is {
		c.objects.policies.Add(t, k)
	}
	c.dirty.policies[k] = struct{}{}
}

// flushPolicies converts the marked BackendTLSPolicies.
func (c *Converter) flushPolicies(out mesh.Batch) mesh.Batch {
	clear(c.dirty.policies)
	return out
}
