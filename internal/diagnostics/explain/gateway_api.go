package explain

import (
	"fmt"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gatewayAPIRule returns the path of the rule of an HTTPRoute or GRPCRoute that produced the route
// with a name, which has the form "namespace.route.rule". rule is the name of a rule in
// object(key), unless object is nil, or any index. It returns "" if the route is not one of this
// object, or rule is neither. ok is false for objects of other kinds.
func gatewayAPIRule(key config.Key, name string, object func(config.Key) *config.Config) (path string, ok bool) {
	if key.Kind != api.HTTPRoute && key.Kind != api.GRPCRoute {
		return "", false
	}
	rule, found := strings.CutPrefix(name, key.Namespace+"."+key.Name+".")
	if !found {
		return "", true
	}
	if object != nil {
		for i, n := range ruleNames(object(key)) {
			if n == rule {
				return fmt.Sprintf("spec.rules[%d]", i), true
			}
		}
	}
	if i, err := strconv.ParseUint(rule, 10, 16); err == nil {
		return fmt.Sprintf("spec.rules[%d]", i), true
	}
	return "", true
}

// ruleNames returns the name of each rule of an HTTPRoute or GRPCRoute, "" for a rule without one.
// It returns nil for nil and for other kinds.
func ruleNames(c *config.Config) []string {
	var names []string
	add := func(n *gatewayv1.SectionName) {
		if n == nil {
			n = new(gatewayv1.SectionName)
		}
		names = append(names, string(*n))
	}
	if c == nil {
		return nil
	}
	switch o := c.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		for _, r := range o.Spec.Rules {
			add(r.Name)
		}
	case *gatewayv1.GRPCRoute:
		for _, r := range o.Spec.Rules {
			add(r.Name)
		}
	}
	return names
}
