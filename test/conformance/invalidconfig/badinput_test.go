package invalidconfig

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

//go:embed good.yaml
var good []byte

// proxies are those for which nothing may be lost.
func proxies() []string {
	return []string{
		"{labels: {app: web}, addresses: [10.9.9.1], name: web-1}",
		"{labels: {app: web}, addresses: [10.9.9.1], name: web-1, interception: NONE}",
		"{type: router, labels: {istio: ingressgateway}, addresses: [10.9.9.5], name: gateway-1}",
	}
}

// TestNothingElseIsLost runs every case: a section of YAML, and the expected Problems in the
// section "NAME: problems".
func TestNothingElseIsLost(t *testing.T) {
	without := apply(t, nil)
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		for _, name := range c.Sections() {
			if strings.HasSuffix(name, problems) {
				continue
			}
			objects := decode.Manifest("case.yaml", c.Input(name))
			with := apply(t, objects)
			said := slices.DeleteFunc(with.problems, func(p string) bool { return slices.Contains(without.problems, p) })
			if len(said) == 0 {
				t.Errorf("%s: no Problem is reported", name)
			}
			c.Compare(t, name+problems, []byte(strings.Join(said, "\n")))
			compare(t, name, objects, without, with)
		}
	})
}

const problems = ": problems"

// TestHugeObjectsAffectNothingElse returns objects that no person would write. Each is refused by
// name, or works.
func TestHugeObjectsAffectNothingElse(t *testing.T) {
	without := apply(t, nil)
	for name, tt := range huge() {
		t.Run(name, func(t *testing.T) {
			objects := decode.Manifest("case.yaml", []byte(tt.text))
			refused := len(objects) == 1 && objects[0].Config == nil
			if refused != tt.refused {
				t.Errorf("refused: %v, want %v: %v", refused, tt.refused, objects[0].Problems)
			}
			with := apply(t, objects)
			compare(t, name, objects, without, with)
			if !refused {
				envoy.Validate(t, xdsdump.ConfigOf(t, slices.Collect(maps.Values(with.sent[0]))))
			}
		})
	}
}

// outcome contains the Problems and resources of a mesh.
type outcome struct {
	problems []string
	// sent are the resources of each proxy, by type and name.
	sent []map[string]*resource.Resource
}

// apply adds the objects to a valid mesh, as a source would: refused ones are not added.
func apply(t *testing.T, objects []decode.Decoded) outcome {
	t.Helper()
	m := fixture.New(t, good, nil)
	var list []*config.Config
	var found []config.Problem
	for _, o := range objects {
		found = append(found, o.Problems...)
		if o.Config != nil {
			list = append(list, o.Config)
		}
	}
	s, _ := m.Send(fixture.Events(mesh.Upsert, list...)...)
	return observe(t, s, found, proxies())
}

// observe returns the Problems of a snapshot, besides those already found, and the resources of proxies.
func observe(t *testing.T, s *snapshot.Snapshot, found []config.Problem, proxies []string) outcome {
	t.Helper()
	found = append(found, s.Problems()...)
	found = append(found, analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh}).Analyze(s)...)
	found = append(found, new(secret.Inspector).Problems(s, time.Now())...)
	var out outcome
	table := translate.NewTable(translate.Options{})
	for _, proxy := range proxies {
		v := viewOf(t, s, proxy)
		found = append(found, table.Conflicts(v)...)
		byName := map[string]*resource.Resource{}
		for _, r := range xdsdump.AllResources(t, table, v) {
			byName[r.TypeURL+" "+r.Name] = r
		}
		out.sent = append(out.sent, byName)
	}
	slices.SortFunc(found, config.Problem.Compare)
	for _, p := range slices.Compact(found) {
		p.Origin = ""
		out.problems = append(out.problems, fmt.Sprintf("%s: %s", p.Severity, p))
	}
	out.problems = slices.Compact(out.problems)
	return out
}

func viewOf(t *testing.T, s *snapshot.Snapshot, proxy string) *view.View {
	t.Helper()
	return view.Build(s, view.KeyFor(s, fixture.Proxy(t, []byte(proxy))))
}

// compare wants every resource that the objects have no part in to be the same with them as without.
func compare(t *testing.T, name string, objects []decode.Decoded, without, with outcome) {
	t.Helper()
	bad, names := map[config.Key]bool{}, map[string]bool{}
	for _, o := range objects {
		bad[o.Key], names[o.Key.Name] = true, true
	}
	theirs := func(r *resource.Resource) bool {
		return r != nil && slices.ContainsFunc(r.From, func(k config.Key) bool {
			// Objects that listeners of ListenerSets are converted to have the name in theirs.
			return bad[k] || slices.ContainsFunc(strings.Split(k.Name, "~"), func(part string) bool { return names[part] })
		})
	}
	for i := range without.sent {
		for id, before := range without.sent[i] {
			switch after := with.sent[i][id]; {
			case theirs(after):
			case after == nil:
				t.Errorf("%s: proxy %d has no %s any more", name, i, id)
			case after.Version != before.Version:
				t.Errorf("%s: %s of proxy %d is not as it was", name, id, i)
			}
		}
		for id, after := range with.sent[i] {
			if without.sent[i][id] == nil && !theirs(after) {
				t.Errorf("%s: proxy %d has a new %s, of %v", name, i, id, after.From)
			}
		}
	}
}
