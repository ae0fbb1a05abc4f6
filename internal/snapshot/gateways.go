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

// GatewayNames names the Gateways that select a proxy, the oldest first: "istio-system/public;shop/orders;". Proxies with equal
// names serve the same Gateways. The zero value is none.
type GatewayNames string

// Has says whether an object is among the names.
func (n GatewayNames) Has(k config.Key) bool {
	if n == "" || k.Kind != api.Gateway {
		return false
	}
	one := k.Namespace + "/" + k.Name + ";"
	return strings.HasPrefix(string(n), one) || strings.Contains(string(n), ";"+one)
}

// gateways is the index of Gateways by whom they select. nil is an index of none.
type gateways struct {
	// groups have one selector each, in the order of its text.
	groups []selectedGateways
	// derived is what others compute of Gateways and settings alone.
	derived *Derived

	mu    sync.RWMutex
	known map[string]GatewayNames // by the groups that matched, so that alike proxies share the texts
}

// selectedGateways is the Gateways with one selector, the oldest first.
type selectedGateways struct {
	labels map[string]string
	list   []*config.Config
}

// newGateways makes the index of the objects given, all of the kind.
func newGateways(list []*config.Config) *gateways {
	if len(list) == 0 {
		return nil
	}
	groups := map[string]*selectedGateways{}
	for _, c := range list {
		labels := config.Spec[*networking.Gateway](c).GetSelector()
		text := SelectorText(labels)
		if groups[text] == nil {
			groups[text] = &selectedGateways{labels: labels}
		}
		groups[text].list = append(groups[text].list, c)
	}
	x := &gateways{derived: new(Derived), known: map[string]GatewayNames{}}
	for _, text := range slices.Sorted(maps.Keys(groups)) {
		slices.SortFunc(groups[text].list, config.Older)
		x.groups = append(x.groups, *groups[text])
	}
	return x
}

// GatewayNames gives the names of the Gateways that select a proxy of the namespace with those labels. A Gateway without a
// selector is for all. Where gateways are scoped to their namespace, only those of the proxy's own are.
func (s *Snapshot) GatewayNames(namespace string, labels map[string]string) GatewayNames {
	if s.gateways == nil {
		return ""
	}
	if !s.Settings.Features.ScopeGateways {
		namespace = ""
	}
	return s.gateways.names(namespace, labels)
}

// names gives the names; namespace is "" for Gateways of all.
func (x *gateways) names(namespace string, labels map[string]string) GatewayNames {
	key := append(make([]byte, 0, 64), namespace+"\x00"...)
	begin := len(key)
	for i, g := range x.groups {
		if len(g.labels) == 0 || Selects(g.labels, labels) {
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
		n = x.join(matched, namespace)
		x.mu.Lock()
		x.known[string(key)] = n
		x.mu.Unlock()
	}
	return n
}

func (x *gateways) join(matched []byte, namespace string) GatewayNames {
	var list []*config.Config
	for len(matched) > 0 {
		i, size := binary.Uvarint(matched)
		matched = matched[size:]
		list = append(list, x.groups[i].list...)
	}
	slices.SortFunc(list, config.Older)
	var b strings.Builder
	for _, c := range list {
		if namespace == "" || c.Namespace == namespace {
			b.WriteString(c.Namespace + "/" + c.Name + ";")
		}
	}
	return GatewayNames(b.String())
}

// Gateways gives the Gateways of the names. Those that are not there any more are left out.
func (s *Snapshot) Gateways(names GatewayNames) []*config.Config {
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

// GatewaysDerived holds what others compute of Gateways and settings alone: snapshots between which none of those changed
// share it.
func (s *Snapshot) GatewaysDerived() *Derived {
	if s.gateways == nil {
		return new(Derived)
	}
	return s.gateways.derived
}

// AnyWorkload says whether some workload has the labels, and whether there is any at all.
func (s *Snapshot) AnyWorkload(labels map[string]string) (selected, known bool) {
	for _, at := range s.byAddress.All() {
		for _, w := range at.Workloads {
			if known = true; Selects(labels, w.Labels) {
				return true, true
			}
		}
	}
	return false, known
}
