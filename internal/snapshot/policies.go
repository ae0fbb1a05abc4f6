package snapshot

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// PolicyNames lists the AuthorizationPolicies and RequestAuthentications that apply to a proxy,
// each as "namespace/name;", oldest first. Proxies with equal names have the same policies. The
// zero value is empty.
type PolicyNames struct{ Authorization, Authentication string }

// Has reports whether the lists contain an object. It returns false for objects that are neither
// AuthorizationPolicies nor RequestAuthentications.
func (n PolicyNames) Has(k config.Key) bool {
	list := n.Authorization
	switch k.Kind {
	case api.AuthorizationPolicy:
	case api.RequestAuthentication:
		list = n.Authentication
	default:
		return false
	}
	return containsName(list, k)
}

// containsName reports whether a list of PolicyNames or PluginNames ("namespace/name;" for each
// object) contains the namespace and name of k. It ignores the kind of k.
func containsName(list string, k config.Key) bool {
	name := k.Namespace + "/" + k.Name + ";"
	return strings.HasPrefix(list, name) || strings.Contains(list, ";"+name)
}

// PolicyNames returns the names of the policies of a proxy's namespace and of the root namespace
// that apply to the proxy. A policy applies if its targetRefs refer to the proxy, or if it has none
// and its selector matches. A policy with neither applies to all. It ignores Version and Metadata
// of p.
func (s *Snapshot) PolicyNames(p ProxyAttributes) PolicyNames {
	return PolicyNames{s.AttachedNames(api.AuthorizationPolicy, p), s.AttachedNames(api.RequestAuthentication, p)}
}

// AttachedNames returns the names of the objects of one kind of policy or plugin that apply to a
// proxy (see PolicyNames), as "namespace/name;" each. Objects of the root namespace come first, and
// in each namespace the oldest. It returns "" for none and for other kinds. It ignores Version and
// Metadata of p.
func (s *Snapshot) AttachedNames(kind api.Kind, p ProxyAttributes) string {
	return s.policies[kind].matchingNames(p)
}

// Policies returns the objects of one list of PolicyNames or PluginNames, in its order. Objects
// that no longer exist are left out.
func (s *Snapshot) Policies(kind api.Kind, names string) []*config.Config {
	var list []*config.Config
	for one := range strings.SplitSeq(strings.TrimSuffix(names, ";"), ";") {
		namespace, name, _ := strings.Cut(one, "/")
		if c := s.Config(config.Key{Kind: kind, Namespace: namespace, Name: name}); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// policies is the index of one kind of policy by namespace, oldest first.
type policies struct {
	root        string
	byNamespace map[string][]*config.Config
}

// policyKinds returns the kinds that indexPolicies indexes by namespace.
func policyKinds() []api.Kind {
	return []api.Kind{api.AuthorizationPolicy, api.RequestAuthentication, api.WasmPlugin, api.TrafficExtension}
}

// indexPolicies indexes each policy kind in changed, or all of them if delta.All is set, by
// namespace and age. Other kinds keep their index.
func (e *edit) indexPolicies(changed map[api.Kind]bool) {
	for _, kind := range policyKinds() {
		if !changed[kind] && !e.delta.All {
			continue
		}
		next := maps.Clone(e.next.policies)
		if next == nil {
			next = map[api.Kind]*policies{}
		}
		p := &policies{root: e.next.Settings.RootNamespace, byNamespace: map[string][]*config.Config{}}
		for of := range namespaceParts(e.next.Configs(kind)) {
			p.byNamespace[of[0].Namespace] = slices.SortedFunc(slices.Values(of), config.CompareAge)
		}
		next[kind] = p
		e.next.policies = next
	}
}

// matchingNames returns the names of the policies that apply to a proxy, as "namespace/name;" each,
// or "". Policies of the root namespace and the proxy's namespace apply, if they select or
// reference the proxy or have neither selector nor reference. The root namespace's come first, and
// the oldest first in each namespace. p may be nil.
func (p *policies) matchingNames(who ProxyAttributes) string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	namespaces := []string{p.root, who.Namespace}
	if p.root == who.Namespace {
		namespaces = namespaces[:1]
	}
	for _, ns := range namespaces {
		b.WriteString(matchingNames(p.byNamespace[ns], func(c *config.Config) bool {
			selector, refs := policyTarget(c)
			return len(selector) == 0 && len(refs) == 0 || who.isTargetOf(c)
		}))
	}
	return b.String()
}
