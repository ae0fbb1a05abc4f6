package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const reviews = "reviews.prod.svc.cluster.local"

// ruleText is a DestinationRule: namespace and name, host, exportTo, and the labels of its selector
// ("app=a"; "" for no selector). Its one subset is named like it.
type ruleText struct {
	name, host string
	exportTo   []string
	selector   string
}

func (r ruleText) event(t *testing.T, age int) mesh.Event {
	ns, name, _ := strings.Cut(r.name, "/")
	spec := &networking.DestinationRule{Host: r.host, ExportTo: r.exportTo, Subsets: []*networking.Subset{{Name: name}}}
	if k, v, ok := strings.Cut(r.selector, "="); ok {
		spec.WorkloadSelector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{k: v}}
	} else if r.selector != "" {
		spec.WorkloadSelector = new(typev1beta1.WorkloadSelector)
	}
	return upsert(object(t, api.DestinationRule, ns, name, age, spec))
}

// TestRulesByClient checks which rules apply to a proxy of a namespace, with labels, for the
// service reviews of prod.
func TestRulesByClient(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rules  []ruleText // the oldest first
		client string
		labels map[string]string
		want   string // names of the rules that were merged
	}{
		{"a rule that selects it", []ruleText{{"web/a", reviews, nil, "app=a"}, {"web/b", reviews, nil, ""}}, "web", map[string]string{"app": "a", "x": "y"}, "a"},
		{"one that selects others", []ruleText{{"web/a", reviews, nil, "app=a"}, {"web/b", reviews, nil, ""}}, "web", map[string]string{"app": "b"}, "b"},
		{"a rule that selects other workloads hides no rule", []ruleText{{"web/a", reviews, nil, "app=a"}, {"prod/b", "reviews", nil, ""}}, "web", nil, "b"},
		{"a selector without labels selects all", []ruleText{{"web/b", reviews, nil, ""}, {"web/a", reviews, nil, "all"}}, "web", nil, "a"},
		{"of other namespaces none", []ruleText{{"prod/a", "reviews", []string{"*"}, "app=a"}}, "web", map[string]string{"app": "a"}, ""},
		{"nor of the root namespace", []ruleText{{"istio-system/a", reviews, nil, "app=a"}}, "web", map[string]string{"app": "a"}, ""},
		{"but in the root namespace", []ruleText{{"istio-system/a", reviews, nil, "app=a"}, {"prod/b", "reviews", nil, ""}}, "istio-system", map[string]string{"app": "a"}, "a"},
		{"equal selectors are merged", []ruleText{{"web/a", reviews, nil, "app=a"}, {"web/b", reviews, nil, "app=a"}}, "web", map[string]string{"app": "a"}, "a,b"},
		{"the oldest of several other rules", []ruleText{{"web/a", reviews, nil, "app=a"}, {"web/b", reviews, nil, "v=1"}}, "web", map[string]string{"app": "a", "v": "1"}, "a"},
		{"the most specific host before the selector", []ruleText{{"web/a", "*.local", nil, "app=a"}, {"web/b", reviews, nil, ""}}, "web", map[string]string{"app": "a"}, "b"},
		{"a selected wildcard", []ruleText{{"web/b", "*.local", nil, ""}, {"web/a", "*.local", nil, "app=a"}}, "web", map[string]string{"app": "a"}, "a"},

		{"all of one host", []ruleText{{"prod/a", "reviews", nil, ""}, {"prod/b", reviews, nil, ""}}, "web", nil, "a,b"},
		{"only rules exported to the client", []ruleText{{"prod/a", "reviews", []string{"x"}, ""}, {"prod/b", "reviews", []string{"web"}, ""}}, "web", nil, "b"},
		{"merged with rules exported to all", []ruleText{{"prod/a", "reviews", []string{"*"}, ""}, {"prod/b", "reviews", []string{"web"}, ""}}, "web", nil, "a,b"},
		{"other namespaces get rules exported to all", []ruleText{{"prod/a", "reviews", []string{"*"}, ""}, {"prod/b", "reviews", []string{"web"}, ""}}, "x", nil, "a"},
		{"own namespace, rule exported to another namespace", []ruleText{{"prod/a", "reviews", []string{"*"}, ""}, {"prod/b", "reviews", []string{"web"}, ""}}, "prod", nil, "a"},
		{"own namespace, private rule", []ruleText{{"prod/a", "reviews", []string{"*"}, ""}, {"prod/b", "reviews", []string{"."}, ""}}, "prod", nil, "a,b"},
		{"of one list of namespaces", []ruleText{{"prod/a", "reviews", []string{"web", "x"}, ""}, {"prod/b", "reviews", []string{"x", "web"}, ""}}, "web", nil, "a,b"},
		{"a wildcard exported to another namespace", []ruleText{{"prod/a", "*.prod.svc.cluster.local", []string{"x"}, ""}, {"prod/b", "*.local", nil, ""}}, "web", nil, "b"},
		{"private of the root first for its own", []ruleText{{"istio-system/a", reviews, []string{"."}, ""}, {"prod/b", "reviews", nil, ""}}, "istio-system", nil, "a"},
		{"then the service's", []ruleText{{"istio-system/a", reviews, nil, ""}, {"prod/b", "reviews", nil, ""}}, "istio-system", nil, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var events []mesh.Event
			for i, r := range tt.rules {
				events = append(events, r.event(t, 100-i))
			}
			slices.Reverse(events)
			s, _ := NewBuilder(Options{}).Apply(events...)
			names := s.RuleNames(tt.client, tt.labels)
			var got []string
			if r := s.SelectedRule(tt.client, names, mesh.ServiceKey{Namespace: "prod", Host: reviews}); r != nil {
				for _, x := range r.Spec.Subsets {
					got = append(got, x.Name)
				}
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("rules = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRuleChanges: after any change the index equals one built from all rules at once, and the
// change names the affected hosts.
func TestRuleChanges(t *testing.T) {
	texts := []ruleText{
		{"prod/a", "reviews", nil, ""}, {"prod/a", "reviews", []string{"."}, ""}, {"prod/a", "*.local", nil, ""}, {"prod/a", "reviews", nil, "app=a"},
		{"prod/b", "reviews", []string{"web"}, ""}, {"prod/b", "reviews", nil, "app=a"}, {"prod/b", "*.local", []string{"web"}, ""},
		{"istio-system/c", reviews, nil, ""}, {"istio-system/c", reviews, []string{"."}, ""}, {"istio-system/c", reviews, nil, "app=a"},
		{"web/d", reviews, nil, "app=a"}, {"web/d", reviews, nil, "all"}, {"web/d", "*.local", nil, ""},
	}
	type look struct{ client, labels string }
	key := mesh.ServiceKey{Namespace: "prod", Host: reviews}
	all := func(s *Snapshot) map[look]*DestinationRule {
		found := map[look]*DestinationRule{}
		for _, client := range []string{"prod", "web", "istio-system", "else"} {
			for _, app := range []string{"a", "b"} {
				found[look{client, app}] = s.SelectedRule(client, s.RuleNames(client, map[string]string{"app": app}), key)
			}
		}
		return found
	}
	names := func(found map[look]*DestinationRule) map[look]string {
		out := map[look]string{}
		for l, r := range found {
			if r != nil {
				out[l] = r.Spec.String()
			}
		}
		return out
	}
	b := NewBuilder(Options{})
	now := map[string]ruleText{}
	before, _ := b.Apply()
	for i := range 400 {
		text := texts[i*i*7%len(texts)]
		e := text.event(t, len(text.name)+int(text.name[len(text.name)-1]))
		if i%3 == 0 {
			e.Op = mesh.Delete
			delete(now, text.name)
		} else {
			now[text.name] = text
		}
		s, d := b.Apply(e)
		var events []mesh.Event
		for _, r := range now {
			events = append(events, r.event(t, len(r.name)+int(r.name[len(r.name)-1])))
		}
		whole, _ := NewBuilder(Options{}).Apply(events...)
		if diff := cmp.Diff(names(all(whole)), names(all(s))); diff != "" {
			t.Fatalf("step %d, %+v: (-want +got):\n%s", i, text, diff)
		}
		old, found := all(before), all(s)
		for l, r := range found {
			if old[l] == r || !s.SameRuleSelectors(before, l.client) {
				continue
			}
			_, exact := d.Rules[reviews]
			if _, wild := d.Rules["*.local"]; !exact && !wild {
				t.Fatalf("step %d, %+v: the rule of %v differs, but the change names only %v", i, text, l, d.Rules)
			}
		}
		before = s
	}
}

func TestRulesOf(t *testing.T) {
	s, _ := NewBuilder(Options{}).Apply(ruleText{"web/a", reviews, nil, "app=a"}.event(t, 9), ruleText{"web/b", "*.local", nil, "app=b"}.event(t, 8), ruleText{"prod/c", "reviews", nil, ""}.event(t, 7))
	var got []string
	for _, r := range s.RulesOf("web", mesh.ServiceKey{Namespace: "prod", Host: reviews}) {
		got = append(got, r.From[0].Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
