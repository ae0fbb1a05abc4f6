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

// explain says where a case's call goes.
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

// call is the case's call as package explain has it.
func (s *scene) call(c *table.Case) (explain.Call, error) {
	call := explain.Call{Direction: explain.Outbound}
	switch {
	case c.Into != "" && s.table.Caller(c.Into).Gateway:
		call.Direction = explain.Direct
	case c.Into != "":
		call.Direction = explain.Inbound
	case c.Via != "":
		call.Direction = explain.Direct
	}
	var err error
	if call.To, err = s.table.Target(c); err != nil {
		return call, err
	}
	call.Carries = explain.Carried(c.Protocol)
	if c.Send != "" {
		err = sends(&call, c.Send)
	}
	if c.Call == "" || err != nil {
		return call, err
	}
	lines := append(c.Lines(), strings.ToLower(idHeader)+": "+c.ID())
	if c.Host != "" {
		lines = append(lines, "host: "+c.Host)
	}
	call.Request, err = explain.ParseRequest(c.Call, lines...)
	return call, err
}

// sends reads what is sent in place of HTTP: "bytes", "silence", "tls NAME [ALPN,ALPN]".
func sends(call *explain.Call, what string) error {
	words := strings.Fields(what)
	switch {
	case words[0] == "tls" && len(words) <= 3:
		call.Carries = explain.TLS
		if len(words) > 1 && words[1] != "-" {
			call.ServerName = words[1]
		}
		if len(words) > 2 {
			call.ALPN = strings.Split(words[2], ",")
		}
	case len(words) == 1 && (words[0] == string(explain.Bytes) || words[0] == string(explain.Silence)):
		call.Carries = explain.Carried(words[0])
	default:
		return fmt.Errorf("nothing known is sent by %q", what)
	}
	return nil
}
