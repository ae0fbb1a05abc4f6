package snapshot

import (
	"cmp"
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// PatchNames names the patches of EnvoyFilters that hold for a proxy, for each kind of resource. Proxies with equal names are
// patched alike. The zero value is no patch at all.
type PatchNames struct {
	Clusters PatchList
	// Listeners has also the patches of routes that inbound listeners have inside.
	Listeners  PatchList
	Routes     PatchList
	Extensions PatchList
}

// PatchList names patches by object and place, in the order in which they are applied: "istio-system/lua:0,2;default/limits:1".
type PatchList string

// Has says whether one of the object's patches is among the names.
func (n PatchNames) Has(k config.Key) bool {
	return n.Clusters.Has(k) || n.Listeners.Has(k) || n.Routes.Has(k) || n.Extensions.Has(k)
}

// Has says whether one of the object's patches is in the list.
func (l PatchList) Has(k config.Key) bool {
	if l == "" || k.Kind != api.EnvoyFilter {
		return false
	}
	object := k.Namespace + "/" + k.Name + ":"
	return strings.HasPrefix(string(l), object) || strings.Contains(string(l), ";"+object)
}

// Without gives the names but for those of one object's patches.
func (n PatchNames) Without(k config.Key) PatchNames {
	return PatchNames{n.Clusters.without(k), n.Listeners.without(k), n.Routes.without(k), n.Extensions.without(k)}
}

func (l PatchList) without(k config.Key) PatchList {
	if !l.Has(k) {
		return l
	}
	object := k.Namespace + "/" + k.Name + ":"
	var kept []string
	for one := range strings.SplitSeq(string(l), ";") {
		if !strings.HasPrefix(one, object) {
			kept = append(kept, one)
		}
	}
	return PatchList(strings.Join(kept, ";"))
}

// Patched is what of a proxy decides which patches hold for it.
type Patched struct {
	Type      mesh.ProxyType
	Namespace string
	Labels    map[string]string
	// Version is what match.proxy.proxyVersion is held against (ISTIO_VERSION), Metadata what match.proxy.metadata is: the
	// entries of the node's metadata whose values are strings.
	Version  string
	Metadata map[string]string
}

// EnvoyPatch is one entry of an EnvoyFilter's configPatches.
type EnvoyPatch struct {
	Filter *config.Config
	Index  int
}

// envoyFilters is the index of EnvoyFilters by whom they apply to. nil is an index of none.
type envoyFilters struct {
	rows map[*config.Config]*filterRow
	// byNamespace has, for each namespace that has EnvoyFilters, those and the root namespace's in the order in which they
	// are applied; all other namespaces have root.
	byNamespace map[string][]*filterRow
	root        []*filterRow
	// rootNamespace is the name of the namespace whose EnvoyFilters are for all.
	rootNamespace string

	mu    sync.RWMutex
	known map[string]PatchNames // by what matched, so that alike proxies share the texts
}

// filterRow is one EnvoyFilter, ready to be held against proxies.
type filterRow struct {
	object  *config.Config
	spec    *networking.EnvoyFilter
	patches []patchRow
}

// patchRow is one patch, ready to be held against proxies.
type patchRow struct {
	applyTo networking.EnvoyFilter_ApplyTo
	context networking.EnvoyFilter_PatchContext
	// version is nil where any will do; never says that no version can match.
	version  *regexp.Regexp
	never    bool
	metadata map[string]string
}

// maxVersionRegexp is the greatest length in bytes of a proxyVersion that is compiled, whatever validation let through.
const maxVersionRegexp = 1024

// PatchNames gives the names of the patches that hold for a proxy.
func (s *Snapshot) PatchNames(p Patched) PatchNames { return s.envoyFilters.names(p) }

// EnvoyPatches gives the patches of a list. Those that are not there any more are left out.
func (s *Snapshot) EnvoyPatches(names PatchList) []EnvoyPatch {
	var list []EnvoyPatch
	for one := range strings.SplitSeq(string(names), ";") {
		object, indices, _ := strings.Cut(one, ":")
		namespace, name, ok := strings.Cut(object, "/")
		if !ok {
			continue
		}
		c := s.Config(config.Key{Kind: api.EnvoyFilter, Namespace: namespace, Name: name})
		if c == nil {
			continue
		}
		patches := config.Spec[*networking.EnvoyFilter](c).GetConfigPatches()
		for text := range strings.SplitSeq(indices, ",") {
			if i, err := strconv.Atoi(text); err == nil && i >= 0 && i < len(patches) {
				list = append(list, EnvoyPatch{Filter: c, Index: i})
			}
		}
	}
	return list
}

// rebuilt makes the index for the objects given, all of the kind, keeping what is known of those that are the same.
func (f *envoyFilters) rebuilt(list []*config.Config, settings *Settings) *envoyFilters {
	if len(list) == 0 {
		return nil
	}
	root := settings.RootNamespace
	next := &envoyFilters{
		rows: map[*config.Config]*filterRow{}, byNamespace: map[string][]*filterRow{}, rootNamespace: root, known: map[string]PatchNames{},
	}
	for _, c := range list {
		var row *filterRow
		if f != nil {
			row = f.rows[c]
		}
		if row == nil {
			row = newFilterRow(c)
		}
		next.rows[c] = row
		next.byNamespace[c.Namespace] = append(next.byNamespace[c.Namespace], row)
	}
	next.root = next.byNamespace[root]
	for ns, rows := range next.byNamespace {
		if ns != root {
			rows = slices.Concat(next.root, rows)
		}
		slices.SortFunc(rows, func(a, b *filterRow) int { return a.before(b, root) })
		next.byNamespace[ns] = rows
	}
	return next
}

// before orders EnvoyFilters as they are applied: by priority whatever the namespace, then those of the root namespace,
// then by age.
func (r *filterRow) before(o *filterRow, root string) int {
	own := func(x *filterRow) int {
		if x.object.Namespace == root {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(r.spec.GetPriority(), o.spec.GetPriority()), cmp.Compare(own(r), own(o)), config.Older(r.object, o.object))
}

func newFilterRow(c *config.Config) *filterRow {
	r := &filterRow{object: c, spec: config.Spec[*networking.EnvoyFilter](c)}
	for _, p := range r.spec.GetConfigPatches() {
		row := patchRow{applyTo: p.GetApplyTo(), context: p.GetMatch().GetContext(), metadata: p.GetMatch().GetProxy().GetMetadata()}
		if expr := p.GetMatch().GetProxy().GetProxyVersion(); expr != "" {
			row.never = true
			if len(expr) <= maxVersionRegexp {
				if re, err := regexp.Compile(expr); err == nil {
					row.version, row.never = re, false
				}
			}
		}
		r.patches = append(r.patches, row)
	}
	return r
}

func (f *envoyFilters) names(p Patched) PatchNames {
	if f == nil {
		return PatchNames{}
	}
	rows, ok := f.byNamespace[p.Namespace]
	if !ok {
		rows = f.root
	}
	matched := make([]byte, 0, 64) // pairs of a row's and a patch's place
	for i, r := range rows {
		if !r.selects(p, f.rootNamespace) {
			continue
		}
		for j := range r.patches {
			if r.patches[j].holds(p) {
				matched = binary.AppendUvarint(binary.AppendUvarint(matched, uint64(i)), uint64(j))
			}
		}
	}
	if len(matched) == 0 {
		return PatchNames{}
	}
	key := append(append(matched, p.Type...), "\x00"+p.Namespace...)
	f.mu.RLock()
	n, ok := f.known[string(key)]
	f.mu.RUnlock()
	if !ok {
		n = namesOf(rows, matched, p.Type)
		f.mu.Lock()
		f.known[string(key)] = n
		f.mu.Unlock()
	}
	return n
}

func namesOf(rows []*filterRow, matched []byte, t mesh.ProxyType) PatchNames {
	var n PatchNames
	for len(matched) > 0 {
		i, size := binary.Uvarint(matched)
		j, more := binary.Uvarint(matched[size:])
		matched = matched[size+more:]
		r := rows[i]
		for _, l := range r.patches[j].lists(&n, t) {
			*l = l.with(r.object.Key, int(j))
		}
	}
	return n
}

// with appends a patch: by its number alone if the one before it is of the same object.
func (l PatchList) with(k config.Key, patch int) PatchList {
	object := k.Namespace + "/" + k.Name + ":"
	last := l[strings.LastIndexByte(string(l), ';')+1:]
	switch {
	case strings.HasPrefix(string(last), object):
		l += ","
	case l != "":
		l += PatchList(";" + object)
	default:
		l = PatchList(object)
	}
	return l + PatchList(strconv.Itoa(patch))
}

// lists gives the lists that a patch belongs to: those of the resources of such a proxy in which it may find something.
func (p *patchRow) lists(n *PatchNames, t mesh.ProxyType) []*PatchList {
	switch p.applyTo {
	case networking.EnvoyFilter_CLUSTER:
		return []*PatchList{&n.Clusters}
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_LISTENER_FILTER:
		return []*PatchList{&n.Listeners}
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE:
		switch {
		case t != mesh.SidecarProxy:
			return []*PatchList{&n.Routes}
		case p.context == networking.EnvoyFilter_SIDECAR_INBOUND:
			return []*PatchList{&n.Listeners}
		case p.context == networking.EnvoyFilter_SIDECAR_OUTBOUND:
			return []*PatchList{&n.Routes}
		default:
			return []*PatchList{&n.Listeners, &n.Routes}
		}
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return []*PatchList{&n.Extensions}
	default: // the bootstrap is no resource
		return nil
	}
}

// holds says whether a patch of an EnvoyFilter that selects the proxy may find something in its resources.
func (p *patchRow) holds(x Patched) bool {
	switch p.context {
	case networking.EnvoyFilter_ANY:
	case networking.EnvoyFilter_SIDECAR_INBOUND, networking.EnvoyFilter_SIDECAR_OUTBOUND:
		if x.Type != mesh.SidecarProxy {
			return false
		}
	case networking.EnvoyFilter_GATEWAY:
		if x.Type != mesh.RouterProxy {
			return false
		}
	default: // there are no waypoints
		return false
	}
	if p.never || p.version != nil && (x.Version == "" || !p.version.MatchString(x.Version)) {
		return false
	}
	for k, want := range p.metadata {
		if have, ok := x.Metadata[k]; !ok || have != want {
			return false
		}
	}
	return true
}

// Labels that pods of a Gateway of the Gateway API have.
const (
	gatewayNameLabel  = "gateway.networking.k8s.io/gateway-name"
	gatewayClassLabel = "gateway.networking.k8s.io/gateway-class-name"
	gatewayGroup      = "gateway.networking.k8s.io"
)

// selects says whether an EnvoyFilter of the proxy's namespace or of the root namespace is for the proxy.
func (r *filterRow) selects(p Patched, root string) bool {
	if refs := r.spec.GetTargetRefs(); len(refs) > 0 {
		return slices.ContainsFunc(refs, func(ref *typev1beta1.PolicyTargetReference) bool { return p.meant(ref, r.object.Namespace, root) })
	}
	labels := r.spec.GetWorkloadSelector().GetLabels()
	return len(labels) == 0 || Selects(labels, p.Labels)
}

// meant says whether a reference of an object in a namespace means the proxy. Services and ServiceEntries can be meant only
// where there are waypoints.
func (p Patched) meant(ref *typev1beta1.PolicyTargetReference, namespace, root string) bool {
	if p.Type != mesh.RouterProxy || ref.GetGroup() != gatewayGroup || ref.GetName() == "" {
		return false
	}
	switch ref.GetKind() {
	case "Gateway":
		return namespace == p.Namespace && p.Labels[gatewayNameLabel] == ref.GetName()
	case "GatewayClass":
		return namespace == root && p.Labels[gatewayClassLabel] == ref.GetName()
	default:
		return false
	}
}
