package patch

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// routesWork is a RouteConfiguration being patched. It is never decoded completely: only the
// virtual hosts that a patch may match are decoded, and the other fields if a patch applies to
// them.
type routesWork struct {
	tallies
	list *list
	// active has the patches that match the RouteConfiguration itself.
	active []bool
	// patchHost patches an encoded VirtualHost, or returns a cached outcome.
	patchHost func(body []byte) *hostOutcome

	name   []byte   // the encoded field
	hosts  [][]byte // the encoded messages
	others []byte   // all other fields, encoded
	made   []*hostOutcome
}

// patchRoutes applies the patches of k, which match the RouteConfiguration. host patches one
// encoded virtual host. Failures are recorded in the outcome.
func patchRoutes(k task, host func(body []byte) *hostOutcome) *outcome {
	n := len(k.patches.patches)
	w := &routesWork{tallies: make(tallies, n), list: k.patches, active: make([]bool, n), patchHost: host}
	for i := range w.active {
		w.active[i] = true
	}
	body := w.apply(k.resource.Body)
	o := w.finish(k.resource, k.patches, k.resource.Name, body)
	o.hosts = w.made
	return o
}

// inlineRoutes returns the inline routes of a connection manager with patches applied, or routes
// itself if none had an effect. If the result cannot be encoded or decoded, it returns routes, and
// records nothing. Otherwise it adds the tallies to w.
func (w *listenerWork) inlineRoutes(routes *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	side := networking.EnvoyFilter_SIDECAR_INBOUND
	if w.gateway {
		side = networking.EnvoyFilter_GATEWAY
	}
	inner := &routesWork{
		tallies: make(tallies, len(w.list.patches)),
		list:    w.list,
		active:  make([]bool, len(w.list.patches)),
	}
	any := false
	for i, p := range w.list.patches {
		inner.active[i] = p.patchesRoutes() && p.matchesRoutes(routes.GetName(), side, nil)
		any = any || inner.active[i]
	}
	if !any {
		return routes
	}
	inner.patchHost = func(body []byte) *hostOutcome { return patchHost(body, w.list, inner.active) }
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(routes)
	if err != nil {
		return routes
	}
	next := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(inner.apply(body), next); err != nil {
		return routes
	}
	w.addTallies(inner.tallies)
	if !inner.hasEffect() {
		return routes
	}
	return next
}

// patchesRoutes reports whether the patch is of a RouteConfiguration, a virtual host or a route.
func (p *patch) patchesRoutes() bool {
	switch p.applyTo {
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_HTTP_ROUTE:
		return true
	default:
		return false
	}
}

// patchesOf iterates over the active patches of type a, with their indexes in the list.
func (w *routesWork) patchesOf(a applyTo) func(yield func(int, *patch) bool) {
	return func(yield func(int, *patch) bool) {
		for i, p := range w.list.patches {
			if w.active[i] && p.applyTo == a && !yield(i, p) {
				return
			}
		}
	}
}

// apply returns the encoded RouteConfiguration body with patches applied: to itself, which may add
// virtual hosts, then to virtual hosts; then patches add virtual hosts. Failures are recorded. A
// patch that adds a virtual host whose name or domain exists fails.
func (w *routesWork) apply(body []byte) []byte {
	forEachField(body, func(f field) bool {
		switch f.number {
		case routesName:
			w.name = f.whole
		case routesVirtualHosts:
			w.hosts = append(w.hosts, f.body)
		default:
			w.others = append(w.others, f.whole...)
		}
		return true
	})
	for i, p := range w.patchesOf(networking.EnvoyFilter_ROUTE_CONFIGURATION) {
		w.recordDepth(i, matchedResource)
		hosts, err := w.mergeFields(p)
		if err != nil {
			w.fail(i, err)
			continue
		}
		w.recordEffects(i, 1)
		for _, h := range hosts {
			w.addHost(i, h)
		}
	}
	w.patchHosts()
	for i, p := range w.patchesOf(networking.EnvoyFilter_VIRTUAL_HOST) {
		if value, ok := p.value.(*routev3.VirtualHost); ok && p.adds() {
			w.recordDepth(i, matchedResource)
			w.addHost(i, value)
		}
	}
	return w.assemble()
}

// mergeFields merges a patch of the RouteConfiguration itself into its fields (w.others). It
// returns the virtual hosts of the patch's value, which the caller adds. It returns an error,
// without a change, if the patch has no value or renames the RouteConfiguration, or the result is
// invalid.
func (w *routesWork) mergeFields(p *patch) ([]*routev3.VirtualHost, error) {
	value, ok := p.value.(*routev3.RouteConfiguration)
	if !ok {
		return nil, errNoValue
	}
	c := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(append(append([]byte(nil), w.name...), w.others...), c); err != nil {
		return nil, stableError(err)
	}
	if value.GetName() != "" && value.GetName() != c.GetName() {
		return nil, errRename
	}
	rest := proto.CloneOf(value)
	rest.Name, rest.VirtualHosts = "", nil
	merge(c, rest, p.replacesLists())
	if err := check(c); err != nil {
		return nil, err
	}
	c.Name = ""
	others, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, stableError(err)
	}
	w.others = others
	return value.GetVirtualHosts(), nil
}

// patchHosts applies to each virtual host the patches that may match something in it, and records
// their results in w. Virtual hosts that a patch removes are deleted from w.hosts first. If then a
// changed virtual host has a name or domain of another one, it stays unchanged and its patches
// fail.
func (w *routesWork) patchHosts() {
	type change struct {
		at  int
		was []byte
		*hostOutcome
	}
	var changes []change
	for at, h := range w.hosts {
		if !w.mayTouch(h) {
			continue
		}
		o := w.patchHost(h)
		w.made = append(w.made, o)
		switch {
		case !o.tallies.hasEffect():
			w.addTallies(o.tallies)
		case o.body == nil: // Its name and domains become available.
			w.addTallies(o.tallies)
			w.hosts[at] = nil
		default:
			changes = append(changes, change{at, h, o})
		}
	}
	for _, c := range changes {
		if err := w.conflictOf(newClaims(c.body, c.was), c.at); err != nil {
			w.refuse(c.tallies, err)
			continue
		}
		w.addTallies(c.tallies)
		w.hosts[c.at] = c.body
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(h []byte) bool { return h == nil })
}

// refuse records err for the patches that had an effect on a virtual host whose result is not used.
// t has their results there.
func (w *routesWork) refuse(t tallies, err error) {
	for i := range t {
		if t[i].applied > 0 {
			w.fail(i, err)
		}
	}
}

// mayTouch reports whether an active patch may match something in an encoded VirtualHost. It
// compares names only, so it may return true if no patch matches. It ignores patches of the
// RouteConfiguration itself and patches that add virtual hosts.
func (w *routesWork) mayTouch(host []byte) bool {
	for i, p := range w.list.patches {
		if !w.active[i] || p.applyTo == networking.EnvoyFilter_ROUTE_CONFIGURATION ||
			p.adds() && p.applyTo == networking.EnvoyFilter_VIRTUAL_HOST {
			continue
		}
		m := p.route.GetVhost()
		if w.list.values.mayHave(host, m.GetName()) && w.list.values.mayHave(host, m.GetDomainName()) &&
			w.list.values.mayHave(host, m.GetRoute().GetName()) {
			return true
		}
	}
	return false
}

// addHost adds a virtual host of the patch with index i. If its name or a domain exists already, it
// is left out and the patch fails. An effect is recorded only for a patch that adds a virtual host,
// not for a merge of the RouteConfiguration, which has one already.
func (w *routesWork) addHost(i int, h *routev3.VirtualHost) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
	if err == nil {
		err = w.conflictOf(newClaims(body, nil), -1)
	}
	if err != nil {
		w.fail(i, err)
		return
	}
	w.hosts = append(w.hosts, body)
	if w.list.patches[i].adds() {
		w.recordEffects(i, 1)
	}
}

// assemble returns the encoded RouteConfiguration, with its fields in the order of their numbers.
func (w *routesWork) assemble() []byte {
	size := len(w.name) + len(w.others)
	for _, h := range w.hosts {
		size += len(h) + 6
	}
	b := append(make([]byte, 0, size), w.name...)
	for _, h := range w.hosts {
		b = protowire.AppendBytes(protowire.AppendTag(b, routesVirtualHosts, protowire.BytesType), h)
	}
	return append(b, w.others...)
}
