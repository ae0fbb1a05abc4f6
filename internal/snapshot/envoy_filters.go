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

// ProxyAttributes are the attributes of a proxy that selectors of policies and EnvoyFilters match.
type ProxyAttributes struct {
	Type      mesh.ProxyType
	Namespace string
	Labels    map[string]string
	// Version is compared with match.proxy.proxyVersion (ISTIO_VERSION). Metadata is compared with
	// match.proxy.metadata: it contains the entries of the node metadata whose values are strings.
	Version  string
	Metadata map[string]string
}

// EnvoyPatch is one entry of an EnvoyFilter's configPatches.
type EnvoyPatch struct {
	Filter *config.Config
	Index  int
}

// envoyFilters is the index of EnvoyFilters by namespace. A nil index is empty.
type envoyFilters struct {
	rows map[*config.Config]*filterRow
	// byNamespace has, for each namespace with EnvoyFilters, those and the root namespace's in the
	// order of application. All other namespaces use root.
	byNamespace map[string][]*filterRow
	root        []*filterRow

	mu    sync.RWMutex
	known map[string]PatchNames // cache by matched patches, so that equal proxies share the strings
}

// filterRow is an EnvoyFilter, prepared for matching.
type filterRow struct {
	object  *config.Config
	spec    *networking.EnvoyFilter
	patches []patchRow
}

// patchRow is a patch, prepared for matching.
type patchRow struct {
	applyTo networking.EnvoyFilter_ApplyTo
	context networking.EnvoyFilter_PatchContext
	// version is the compiled proxyVersion, or nil to match all. never is set if the expression is
	// invalid, so that no version matches.
	version  *regexp.Regexp
	never    bool
	metadata map[string]string
}

// maxVersionRegexp is the maximum length in bytes of a proxyVersion that is compiled, independent
// of validation.
const maxVersionRegexp = 1024

// PatchNames returns the names of the patches that apply to a proxy. Their EnvoyFilters are in the
// proxy's namespace or the root namespace and select the proxy, and their match.proxy and context
// match it. The result is empty if there are none.
func (s *Snapshot) PatchNames(p ProxyAttributes) PatchNames { return s.envoyFilters.matchingNames(p) }

// EnvoyPatches returns the patches of a list, in its order, or nil. Malformed entries, and patches
// that no longer exist, are left out.
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

// rebuildIndex returns a new index of list, all EnvoyFilters. The list of each namespace includes
// the EnvoyFilters of the root namespace, in the order of application. It reuses the rows of
// unchanged objects. It returns nil for an empty list; f may be nil.
func (f *envoyFilters) rebuildIndex(list []*config.Config, settings *Settings) *envoyFilters {
	if len(list) == 0 {
		return nil
	}
	root := settings.RootNamespace
	next := &envoyFilters{
		rows: map[*config.Config]*filterRow{}, byNamespace: map[string][]*filterRow{}, known: map[string]PatchNames{},
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
		slices.SortFunc(rows, func(a, b *filterRow) int { return a.compareFilters(b, root) })
		next.byNamespace[ns] = rows
	}
	return next
}

// compareFilters orders EnvoyFilters for application: by ascending priority in all namespaces, then
// filters of the namespace root first, then the oldest first.
func (r *filterRow) compareFilters(o *filterRow, root string) int {
	own := func(x *filterRow) int {
		if x.object.Namespace == root {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(r.spec.GetPriority(), o.spec.GetPriority()),
		cmp.Compare(own(r), own(o)),
		config.CompareAge(r.object, o.object),
	)
}

// newFilterRow returns the row of an EnvoyFilter, with a row for each patch in its order. Version
// expressions are compiled; a patch with an invalid or too long one never matches.
func newFilterRow(c *config.Config) *filterRow {
	r := &filterRow{object: c, spec: config.Spec[*networking.EnvoyFilter](c)}
	for _, p := range r.spec.GetConfigPatches() {
		row := patchRow{
			applyTo:  p.GetApplyTo(),
			context:  p.GetMatch().GetContext(),
			metadata: p.GetMatch().GetProxy().GetMetadata(),
		}
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

// matchingNames returns the patches that match p, of the EnvoyFilters that select p: a list for
// each resource type, in the order of application. It uses the cache if an equal set was matched
// before for the type and namespace. All lists are empty if none matches. f may be nil.
func (f *envoyFilters) matchingNames(p ProxyAttributes) PatchNames {
	if f == nil {
		return PatchNames{}
	}
	rows, ok := f.byNamespace[p.Namespace]
	if !ok {
		rows = f.root
	}
	matched := make([]byte, 0, 64) // pairs of row index and patch index
	for i, r := range rows {
		if !r.selectsProxy(p) {
			continue
		}
		for j := range r.patches {
			if r.patches[j].matchesProxy(p) {
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
		n = buildPatchNames(rows, matched, p.Type)
		f.mu.Lock()
		f.known[string(key)] = n
		f.mu.Unlock()
	}
	return n
}

// matchesProxy reports whether a patch, whose EnvoyFilter selects the proxy, matches the proxy's
// type, version and metadata. An extension config matches all types: whether it is needed depends
// on the filter that refers to it. A patch with a version never matches a proxy without one, and a
// patch for waypoints or with an invalid or too long version matches no proxy. All metadata of the
// match must be equal.
func (p *patchRow) matchesProxy(x ProxyAttributes) bool {
	context := p.context
	if p.applyTo == networking.EnvoyFilter_EXTENSION_CONFIG {
		context = networking.EnvoyFilter_ANY
	}
	switch context {
	case networking.EnvoyFilter_ANY:
	case networking.EnvoyFilter_SIDECAR_INBOUND, networking.EnvoyFilter_SIDECAR_OUTBOUND:
		if x.Type != mesh.SidecarProxy {
			return false
		}
	case networking.EnvoyFilter_GATEWAY:
		if x.Type != mesh.RouterProxy {
			return false
		}
	default: // waypoints do not exist here
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

// Labels of the pods of a Kubernetes Gateway API Gateway.
const (
	gatewayNameLabel = "gateway.networking.k8s.io/gateway-name"
	gatewayGroup     = "gateway.networking.k8s.io"
)

// selectsProxy reports whether an EnvoyFilter of the proxy's namespace or of the root namespace
// selects the proxy, by its targetRefs if it has any, else by its workloadSelector. Without either
// it selects every proxy.
func (r *filterRow) selectsProxy(p ProxyAttributes) bool {
	if refs := r.spec.GetTargetRefs(); len(refs) > 0 {
		return slices.ContainsFunc(refs, func(ref *typev1beta1.PolicyTargetReference) bool {
			return p.isReferencedBy(ref, r.object.Namespace)
		})
	}
	labels := r.spec.GetWorkloadSelector().GetLabels()
	return len(labels) == 0 || SelectorMatches(labels, p.Labels)
}

// isReferencedBy reports whether a targetRef of an object in a namespace refers to the proxy's
// Gateway, which must be in the same namespace. It returns false for all other kinds and for
// sidecars: Services, ServiceEntries and GatewayClasses can be referenced only where there are
// waypoints, as in Istio.
func (p ProxyAttributes) isReferencedBy(ref *typev1beta1.PolicyTargetReference, namespace string) bool {
	return p.Type == mesh.RouterProxy && ref.GetGroup() == gatewayGroup && ref.GetKind() == "Gateway" &&
		ref.GetName() != "" && namespace == p.Namespace && p.Labels[gatewayNameLabel] == ref.GetName() &&
		(ref.GetNamespace() == "" || ref.GetNamespace() == namespace)
}
