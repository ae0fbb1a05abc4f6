package listener

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestNamesAgree checks that all clusters and routes that listeners of all cases name are
// generated, except destinations of users' routes that do not exist.
func TestNamesAgree(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		for _, s := range c.Sections() {
			c.Input(s)
		}
		v := caseView(t, c)
		routes, clusters := route.NewGenerator(), map[string]bool{}
		for _, r := range cluster.NewGenerator().All(v) {
			clusters[r.Name] = true
		}
		for _, s := range NewGenerator().Plan(v) {
			for _, chain := range append(s.Chains, s.Default) {
				for _, name := range clustersOf(&chain) {
					if !clusters[name] && owed(v, name) {
						t.Errorf("listener %s leads to the cluster %s, which is not there", s.Name, name)
					}
				}
				if chain.HTTP != nil && chain.HTTP.Inbound == nil && routes.Named(v, chain.HTTP.Route) == nil {
					t.Errorf("listener %s requests the routes %s, which are not generated", s.Name, chain.HTTP.Route)
				}
			}
		}
	})
}

func clustersOf(c *Chain) []string {
	if c.HTTP != nil {
		if c.HTTP.Inbound == nil {
			return nil
		}
		return []string{c.HTTP.Inbound.Cluster}
	}
	if c.TCP == nil {
		return nil // a gateway's listener without a default
	}
	var names []string
	for _, w := range c.TCP.Clusters {
		names = append(names, w.Name)
	}
	return names
}

// owed reports whether a cluster must be there: all but those of hosts and ports that no service has.
func owed(v *view.View, name string) bool {
	n, err := mesh.ParseClusterName(name)
	if err != nil || n.Direction == mesh.Inbound {
		return true
	}
	svc := v.Service(n.Host)
	if svc == nil {
		return false
	}
	_, has := svc.Port(n.Port)
	return has
}
