package snapshot

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// PolicyNames names the AuthorizationPolicies and RequestAuthentications that hold for a proxy, each "namespace/name;", oldest first.
// Proxies with equal names go by the same policies. The zero value is none.
type PolicyNames struct{ Authorization, Authentication string }

// Has says whether the object is one of them.
func (n PolicyNames) Has(k config.Key) bool {
	list := n.Authorization
	switch k.Kind {
	case api.AuthorizationPolicy:
	case api.RequestAuthentication:
		list = n.Authentication
	default:
		return false
	}
	return named(list, k)
}

func named(list string, k config.Key) bool {
	name := k.Namespace + "/" + k.Name + ";"
	return strings.HasPrefix(list, name) || strings.Contains(list, ";"+name)
}

// PolicyNames gives the names of the policies that hold for a proxy: those of its namespace and of the root namespace that select
// everybody there or it (of Patched, Version and Metadata do not count).
func (s *Snapshot) PolicyNames(p Patched) PolicyNames {
	if s.policies == nil {
		return PolicyNames{}
	}
	return PolicyNames{s.policies[api.AuthorizationPolicy].names(p), s.policies[api.RequestAuthentication].names(p)}
}

// Policies gives the objects of one kind of PolicyNames or PluginNames in their order. Those that are gone since are left out.
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

// policies is the index of one kind of policies by namespace, oldest first.
type policies struct {
	root        string
	byNamespace map[string][]*config.Config
}

// policyKinds are the kinds that have such an index.
func policyKinds() []api.Kind {
	return []api.Kind{api.AuthorizationPolicy, api.RequestAuthentication, api.WasmPlugin, api.TrafficExtension}
}

// indexPolicies brings the indexes of changed kinds up to date.
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
		for of := range chunks(e.next.Configs(kind)) {
			p.byNamespace[of[0].Namespace] = slices.SortedFunc(slices.Values(of), config.Older)
		}
		next[kind] = p
		e.next.policies = next
	}
}

func (p *policies) names(who Patched) string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	namespaces := []string{p.root, who.Namespace}
	if p.root == who.Namespace {
		namespaces = namespaces[:1]
	}
	for _, ns := range namespaces {
		for _, c := range p.byNamespace[ns] {
			if selector, refs := attachment(c); len(selector) == 0 && len(refs) == 0 || who.holds(c, p.root) {
				b.WriteString(c.Namespace + "/" + c.Name + ";")
			}
		}
	}
	return b.String()
}
