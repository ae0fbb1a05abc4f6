package authority

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestRootsFollowDiscoverySelectors: the roots are published in the namespaces that discoverySelectors choose, by labels and by expressions.
func TestRootsFollowDiscoverySelectors(t *testing.T) {
	for name, c := range map[string]struct {
		mesh string
		want string // of the teams below
	}{
		"no selectors":         {"{}", "blue red none"},
		"labels":               {"discoverySelectors: [{matchLabels: {team: blue}}]", "blue"},
		"In":                   {"discoverySelectors: [{matchExpressions: [{key: team, operator: In, values: [blue, green]}]}]", "blue"},
		"NotIn":                {"discoverySelectors: [{matchExpressions: [{key: team, operator: NotIn, values: [blue]}]}]", "red none"},
		"Exists":               {"discoverySelectors: [{matchExpressions: [{key: team, operator: Exists}]}]", "blue red"},
		"DoesNotExist":         {"discoverySelectors: [{matchExpressions: [{key: team, operator: DoesNotExist}]}]", "none"},
		"both must hold":       {"discoverySelectors: [{matchLabels: {team: blue}, matchExpressions: [{key: team, operator: In, values: [red]}]}]", ""},
		"one of two is enough": {"discoverySelectors: [{matchLabels: {team: blue}}, {matchExpressions: [{key: team, operator: In, values: [red]}]}]", "blue red"},
		"empty":                {"discoverySelectors: [{}]", "blue red none"},
	} {
		selectors := fixture.New(t, nil, []byte(c.mesh)).Snapshot().Settings.Mesh.GetDiscoverySelectors()
		got := ""
		for _, team := range []string{"blue", "red", "none"} {
			labels := map[string]string{"team": team}
			if team == "none" {
				labels = nil
			}
			if isSelected(selectors, labels) {
				got += " " + team
			}
		}
		if got != "" {
			got = got[1:]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRootPublisher checks the name of the ConfigMap with the roots (PILOT_CA_CERT_CONFIGMAP), and
// whether it has revocation lists (PILOT_ENABLE_CA_CRL).
func TestRootPublisher(t *testing.T) {
	settings := DefaultSettings()
	p := (&Server{o: Options{Settings: settings}}).rootPublisher(nil)
	if p.Name != "" || p.RevocationLists == nil {
		t.Errorf("default: name %q, revocation lists %t", p.Name, p.RevocationLists != nil)
	}
	settings.RootConfigMap, settings.PublishRevocationLists = "roots", false
	p = (&Server{o: Options{Settings: settings}}).rootPublisher(nil)
	if p.Name != "roots" || p.RevocationLists != nil {
		t.Errorf("name %q, revocation lists %t; want roots, false", p.Name, p.RevocationLists != nil)
	}
}
