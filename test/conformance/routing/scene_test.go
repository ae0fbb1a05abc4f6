package routing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// scene is the mesh of all topics as configuration.
type scene struct {
	table     *table.Table
	resources map[string]*explain.Resources // by caller
}

func newScene(t *testing.T) *scene {
	t.Helper()
	cases, err := table.Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	m := fixture.New(t, cases.Objects(), cases.MeshConfig)
	s := &scene{table: cases, resources: map[string]*explain.Resources{}}
	generators, objects := translate.NewTable(translate.Options{}), objectsOf(t, cases)
	for _, c := range cases.Callers {
		if !c.Bare {
			r := xdsdump.ExplainResources(generators, m.View(proxyOf(t, c)))
			r.Object = func(k config.Key) *config.Config { return objects[k] }
			s.resources[c.Name] = r
		}
	}
	return s
}

// objectsOf returns all objects by their keys.
func objectsOf(t *testing.T, cases *table.Table) map[config.Key]*config.Config {
	t.Helper()
	list, err := fixture.Decode(cases.Objects())
	if err != nil {
		t.Fatal(err)
	}
	objects := map[config.Key]*config.Config{}
	for _, c := range list {
		objects[c.Key] = c
	}
	return objects
}

// proxyOf returns the proxy of a caller as its agent describes it.
func proxyOf(t *testing.T, c *table.Caller) *mesh.Proxy {
	t.Helper()
	var labels []string
	for name, value := range c.Labels {
		labels = append(labels, fmt.Sprintf("%s: %s", name, value))
	}
	kind := mesh.SidecarProxy
	if c.Gateway {
		kind = mesh.RouterProxy
	}
	return fixture.Proxy(t, fmt.Appendf(nil, "{type: %s, name: %s, namespace: %s, addresses: [%s], labels: {%s}, locality: %q, identity: true}",
		kind, c.Name, c.Namespace, c.Address, strings.Join(labels, ", "), strings.ReplaceAll(c.Labels["istio-locality"], ".", "/")))
}

// explain returns the explanation of a case's call.
func (s *scene) explain(c *table.Case) (*explain.Path, error) {
	call, err := s.call(c)
	if err != nil {
		return nil, err
	}
	caller := c.From
	if c.Into != "" {
		caller = c.Into
	}
	return explain.Explain(s.resources[caller], call)
}

// call converts the case's call to one of package explain.
func (s *scene) call(c *table.Case) (explain.Call, error) {
	lines := []string{strings.ToLower(idHeader) + ": " + c.ID()}
	if c.Answer != "" {
		lines = append(lines, table.AnswerHeader+": "+c.Answer)
	}
	call, err := c.Request(lines...)
	if err != nil {
		return call, err
	}
	call.Direction = explain.Outbound
	switch {
	case c.Into != "" && s.table.Caller(c.Into).Gateway:
		call.Direction = explain.Direct
	case c.Into != "":
		call.Direction = explain.Inbound
	case c.Via != "":
		call.Direction = explain.Direct
	}
	call.To, err = s.table.Target(c)
	return call, err
}
