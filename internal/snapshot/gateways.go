package snapshot

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// GatewayNames lists the Gateways that select a proxy, oldest first:
// "istio-system/public;shop/orders;". Proxies with equal names serve the same Gateways. The zero
// value is empty.
type GatewayNames string

// Has reports whether the list contains an object. It returns false for objects that are not
// Gateways.
func (n GatewayNames) Has(k config.Key) bool {
	if n == "" || k.Kind != api.Gateway {
		return false
	}
	one := k.Namespace + "/" + k.Name + ";"
	return strings.HasPrefix(string(n), one) || strings.Contains(string(n), ";"+one)
}

// gateways is the index of Gateways by selector. A nil index is empty.
type gateways struct {
	// groups have distinct selectors and are sorted by the selector's text.
	groups []selectedGateways
	// derived caches values that depend only on Gateways and settings.
	derived *Derived

	mu sync.RWMutex
	// cache by matched groups, so that equal proxies share the strings
	known map[string]GatewayNames
}

// selectedGateways contains the Gateways with one selector, oldest first.
type selectedGateways struct {
	labels map[string]string
	// namespace is the only namespace whose proxies are selected, or "".
	namespace string
	list      []*config.Config
}

// selects reports whether the Gateways select a gateway proxy with labels in a namespace:
// g.namespace is empty or equal to it, and the labels match g.labels. Empty g.labels match all.
func (g *selectedGateways) selects(namespace string, labels map[string]string) bool {
	return (g.namespace == "" || g.namespace == namespace) && (len(g.labels) == 0 || SelectorMatches(g.labels, labels))
}

// newGateways returns an index of all Gateways, grouped by selector, oldest first in each group.
// Gateways that select only in their own namespace (Extension) have groups of their own. It returns
// nil for an empty list.
func newGateways(list []*config.Config) *gateways {
	if len(list) == 0 {
		return nil
	}
	groups := map[string]*selectedGateways{}
	for _, c := range list {
		labels, namespace := config.Spec[*networking.Gateway](c).GetSelector(), ""
		if c.Extension != nil && c.Extension.Gateway != nil && c.Extension.Gateway.OwnNamespace {
			namespace = c.Namespace
		}
		text := SelectorText(labels) + "\x00" + namespace
		if groups[text] == nil {
			groups[text] = &selectedGateways{labels: labels, namespace: namespace}
		}
		groups[text].list = append(groups[text].list, c)
	}
	x := &gateways{derived: new(Derived), known: map[string]GatewayNames{}}
	for _, text := range slices.Sorted(maps.Keys(groups)) {
		slices.SortFunc(groups[text].list, config.CompareAge)
		x.groups = append(x.groups, *groups[text])
	}
	return x
}

// GatewayNames returns the names of the Gateways that select a proxy with these labels in a
// namespace, oldest first, or "". A Gateway without a selector selects all gateway proxies; one
// that selects only in its own namespace (Extension), all of that namespace. With
// Features.ScopeGateways only Gateways of the proxy's namespace are used.
func (s *Snapshot) GatewayNames(namespace string, labels map[string]string) GatewayNames {
	if s.gateways == nil {
		return ""
	}
	only := ""
	if s.Settings.Features.ScopeGateways {
		only = namespace
	}
	return s.gateways.matchingNames(only, namespace, labels)
}

// matchingNames returns the names of the Gateways that select a proxy of a namespace with these
// labels, oldest first, from the cache if possible. It returns "" if there are none. If only is not
// empty, Gateways of other namespaces than only are left out.
func (x *gateways) matchingNames(only, namespace string, labels map[string]string) GatewayNames {
	key := append(make([]byte, 0, 64), only+"\x00"...)
	begin := len(key)
	for i := range x.groups {
		if x.groups[i].selects(namespace, labels) {
			key = binary.AppendUvarint(key, uint64(i))
		}
	}
	matched := key[begin:]
	if len(matched) == 0 {
		return ""
	}
	x.mu.RLock()
	n, ok := x.known[string(key)]
	x.mu.RUnlock()
	if !ok {
		n = x.joinNames(matched, only)
		x.mu.Lock()
		x.known[string(key)] = n
		x.mu.Unlock()
	}
	return n
}

// joinNames returns the names of the Gateways in the groups matched, oldest first, as
// "namespace/name;" each. If namespace is not empty, other namespaces are left out. matched has the
// indexes of groups as varints.
func (x *gateways) joinNames(matched []byte, namespace string) GatewayNames {
	var list []*config.Config
	for len(matched) > 0 {
		i, size := binary.Uvarint(matched)
		matched = matched[size:]
		list = append(list, x.groups[i].list...)
	}
	slices.SortFunc(list, config.CompareAge)
	var b strings.Builder
	for _, c := range list {
		if namespace == "" || c.Namespace == namespace {
			b.WriteString(c.Namespace + "/" + c.Name + ";")
		}
	}
	return GatewayNames(b.String())
}

// Gateways returns the Gateways with the given names that their proxies serve, in their order. It
// leaves out ForeignGateways.
func (s *Snapshot) Gateways(names GatewayNames) []*config.Config {
	list := s.gatewaysNamed(names)
	return slices.DeleteFunc(list, s.foreignTo(list))
}

// ForeignGateways returns the Gateways with the given names that their proxies do not serve, in
// their order: if the proxies are deployed for Gateways of the Gateway API, these are Istio's
// Gateways of other namespaces. Their authors could otherwise serve hosts, and use private keys, of
// the deployed Gateway. With Features.MergeForeignGateways it returns nil.
func (s *Snapshot) ForeignGateways(names GatewayNames) []*config.Config {
	list := s.gatewaysNamed(names)
	isForeign := s.foreignTo(list)
	return slices.DeleteFunc(list, func(c *config.Config) bool { return !isForeign(c) })
}

// foreignTo returns a function that reports whether a Gateway is foreign to the list. That is a
// Gateway not converted from the Gateway API, in a namespace in which the list has no managed
// Gateway (Extension). The function returns false for every Gateway if the list has no managed
// Gateway, or with Features.MergeForeignGateways.
func (s *Snapshot) foreignTo(list []*config.Config) func(*config.Config) bool {
	var managed []string // namespaces
	for _, c := range list {
		if x := c.Extension; x != nil && x.Gateway != nil && x.Gateway.Managed {
			managed = append(managed, c.Namespace)
		}
	}
	return func(c *config.Config) bool {
		return len(managed) > 0 && !s.Settings.Features.MergeForeignGateways &&
			(c.Extension == nil || c.Extension.Gateway == nil) && !slices.Contains(managed, c.Namespace)
	}
}

// HasGatewayAccounts reports whether at least one of the Gateways with the given names permits its
// private keys to one service account only (GatewayExtension.ServiceAccount).
func (s *Snapshot) HasGatewayAccounts(names GatewayNames) bool {
	return slices.ContainsFunc(s.gatewaysNamed(names), func(c *config.Config) bool {
		return c.Extension.LimitsAccounts()
	})
}

// gatewaysNamed returns a new list of the Gateways with the given names, in their order.
// Gateways that no longer exist are left out.
func (s *Snapshot) gatewaysNamed(names GatewayNames) []*config.Config {
	var list []*config.Config
	for one := range strings.SplitSeq(string(names), ";") {
		namespace, name, ok := strings.Cut(one, "/")
		if !ok {
			continue
		}
		if c := s.Config(config.Key{Kind: api.Gateway, Namespace: namespace, Name: name}); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// GatewaysDerived returns the cache for values that depend only on Gateways and settings. It is
// shared by all snapshots between which neither changed. Without Gateways, each call returns a new,
// empty cache.
func (s *Snapshot) GatewaysDerived() *Derived {
	if s.gateways == nil {
		return new(Derived)
	}
	return s.gateways.derived
}

// HasWorkload reports as selected whether some workload with an address has all the labels, and as
// known whether any workload with an address exists. No labels select nothing.
func (s *Snapshot) HasWorkload(labels map[string]string) (selected, known bool) {
	for _, at := range s.byAddress.All() {
		for _, w := range at.Workloads {
			if known = true; SelectorMatches(labels, w.Labels) {
				return true, true
			}
		}
	}
	return false, known
}
