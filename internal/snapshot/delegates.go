package snapshot

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// delegate is the resolved target of HTTPRoute.delegate of another VirtualService.
type delegate struct {
	key config.Key
	// config is nil if the target cannot be used; fault is then the reason.
	config *config.Config
	fault  string
}

// findConfig returns the object with a key, or nil if there is none.
type findConfig func(config.Key) *config.Config

// resolveDelegates returns the delegate of each HTTP route of VirtualService c that has one, in the
// order of the routes. A delegate that does not exist or cannot be used is an entry with a fault
// (findDelegate). It returns nil if c has no hosts: such a VirtualService is itself a delegate, and
// delegates must not delegate. spec is c's spec.
func resolveDelegates(c *config.Config, spec *networking.VirtualService, settings *Settings,
	find findConfig) []delegate {
	if len(spec.GetHosts()) == 0 {
		return nil // it is a delegate itself, and delegates cannot delegate
	}
	var list []delegate
	for _, r := range spec.GetHttp() {
		if r.GetDelegate() != nil {
			list = append(list, findDelegate(delegateKey(c, r.GetDelegate()), c.Namespace, settings, find))
		}
	}
	return list
}

// delegateKey returns the key of the object to which d of object c refers. The default namespace is
// that of c.
func delegateKey(c *config.Config, d *networking.Delegate) config.Key {
	k := config.Key{Kind: api.VirtualService, Namespace: d.GetNamespace(), Name: d.GetName()}
	if k.Namespace == "" {
		k.Namespace = c.Namespace
	}
	return k
}

// findDelegate returns the delegate with this key for a VirtualService of namespace. If the object
// does not exist, has hosts of its own or is not exported to the namespace, the result has a fault
// instead of a config.
func findDelegate(key config.Key, namespace string, settings *Settings, find findConfig) delegate {
	c := find(key)
	if c == nil {
		return delegate{
			key:   key,
			fault: fmt.Sprintf("there is no VirtualService %q in namespace %q", key.Name, key.Namespace),
		}
	}
	spec := config.Spec[*networking.VirtualService](c)
	visible := resolveExportTo(spec.GetExportTo(), settings.Mesh.DefaultVirtualServiceExportTo, c.Namespace)
	switch {
	case len(spec.GetHosts()) > 0:
		return delegate{
			key: key,
			fault: fmt.Sprintf("VirtualService \"%s/%s\" has hosts of its own, and a delegate must not",
				key.Namespace, key.Name),
		}
	case !slices.Contains(visible, "*") && !slices.Contains(visible, namespace):
		return delegate{
			key: key,
			fault: fmt.Sprintf("VirtualService \"%s/%s\" is not exported to namespace %q",
				key.Namespace, key.Name, namespace),
		}
	}
	return delegate{key: key, config: c}
}

// inlineDelegates replaces each route that delegates with the routes of its delegate, in a copy of
// v.Spec, and adds the delegates to v.From. For each delegate that cannot be used, it drops the
// route and adds a Problem to v.Faults. It does nothing without delegates.
func (v *VirtualService) inlineDelegates() {
	if len(v.delegates) == 0 {
		return
	}
	v.Spec = proto.CloneOf(v.Spec)
	routes := v.Spec.Http
	v.Spec.Http = nil
	rest := v.delegates
	for i, r := range routes {
		if r.GetDelegate() == nil {
			v.Spec.Http = append(v.Spec.Http, r)
			continue
		}
		d := rest[0]
		rest = rest[1:]
		at := fmt.Sprintf("spec.http[%d].delegate", i)
		if d.config == nil {
			v.addFault(at, d.fault+": the route is left out")
			continue
		}
		v.From = append(v.From, d.key)
		v.inlineDelegate(at, r, d)
	}
	slices.SortFunc(v.From, config.Key.Compare)
	v.From = slices.Compact(v.From)
}

// inlineDelegate appends to v.Spec the routes of the delegate d. Their matches are restricted by
// the matches of root, the delegating route, and fields that they do not set are inherited from it.
// Routes that conflict or that delegate further are dropped with a Problem at the field at. It also
// resolves root's gateways in place.
func (v *VirtualService) inlineDelegate(at string, root *networking.HTTPRoute, d delegate) {
	resolveGateways(root.GetMatch(), v.Config.Namespace)
	for i, r := range config.Spec[*networking.VirtualService](d.config).GetHttp() {
		which := fmt.Sprintf("http[%d] of VirtualService \"%s/%s\" is left out", i, d.key.Namespace, d.key.Name)
		if r.GetDelegate() != nil {
			v.addFault(at, which+": a delegate must not delegate further")
			continue
		}
		r = proto.CloneOf(r)
		resolveRoute(r, d.config.Namespace, v.domain)
		matches, fault := intersectMatches(root.GetMatch(), r.GetMatch())
		if fault != "" {
			v.addFault(at, which+": "+fault)
			continue
		}
		r.Match = matches
		r.Name = joinedName(root.GetName(), r.GetName())
		inheritRouteFields(r, root)
		v.Spec.Http = append(v.Spec.Http, r)
	}
}

// addFault appends a Warning about a field to Faults.
func (v *VirtualService) addFault(field, reason string) {
	v.Faults = append(v.Faults, config.Problem{
		Code: code.UnusedDelegate,
		Key:  v.Config.Key, Origin: v.Config.Origin, Field: field, Reason: reason, Severity: config.Warning,
	})
}

// resolveRoute replaces short names of destinations and gateways in r, a delegate's route, with
// full names, relative to the delegate's namespace, because the delegating object may be in another
// one.
func resolveRoute(r *networking.HTTPRoute, namespace, domain string) {
	resolve := func(d *networking.Destination) {
		if d != nil {
			d.Host = string(mesh.ResolveShortName(d.Host, namespace, domain))
		}
	}
	for _, d := range r.GetRoute() {
		resolve(d.GetDestination())
	}
	resolve(r.GetMirror())
	for _, m := range r.GetMirrors() {
		resolve(m.GetDestination())
	}
	resolveGateways(r.GetMatch(), namespace)
}

// resolveGateways replaces the gateways of matches with their full names (ResolveGateway), in
// place.
func resolveGateways(matches []*networking.HTTPMatchRequest, namespace string) {
	for _, m := range matches {
		for i, g := range m.GetGateways() {
			m.Gateways[i] = ResolveGateway(g, namespace)
		}
	}
}

// joinedName returns "root-leaf", or the one name that is not empty.
func joinedName(root, leaf string) string {
	if root == "" || leaf == "" {
		return root + leaf
	}
	return root + "-" + leaf
}

// inheritRouteFields sets the fields of r that are nil to the values of root, which are shared
// (VirtualService, "Delegate"). Matches, destinations, redirect, delegate and the name are not
// inherited. A field is copied as a whole. An inherited directResponse replaces destinations.
func inheritRouteFields(r, root *networking.HTTPRoute) {
	if r.Rewrite == nil {
		r.Rewrite = root.Rewrite
	}
	if r.DirectResponse == nil {
		r.DirectResponse = root.DirectResponse
	}
	if r.Timeout == nil {
		r.Timeout = root.Timeout
	}
	if r.Retries == nil {
		r.Retries = root.Retries
	}
	if r.Fault == nil {
		r.Fault = root.Fault
	}
	if r.Mirror == nil {
		r.Mirror = root.Mirror
	}
	if r.Mirrors == nil {
		r.Mirrors = root.Mirrors
	}
	if r.MirrorPercentage == nil {
		r.MirrorPercentage = root.MirrorPercentage
	}
	if r.MirrorPercent == nil { //nolint:staticcheck // deprecated, still in use
		r.MirrorPercent = root.MirrorPercent //nolint:staticcheck // as above
	}
	if r.CorsPolicy == nil {
		r.CorsPolicy = root.CorsPolicy
	}
	if r.Headers == nil {
		r.Headers = root.Headers
	}
}
