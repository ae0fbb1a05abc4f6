package invalidconfig

import (
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

//go:embed good_gateway_api.yaml
var goodGatewayAPI string

// gatewayProxies are the proxies of the good objects: a sidecar and the gateways.
func gatewayProxies() []string {
	return []string{
		"{labels: {app: web}, namespace: shop, addresses: [10.9.9.1], name: web-1}",
		"{type: router, labels: {gateway.networking.k8s.io/gateway-name: web}, namespace: shop, addresses: [10.9.9.5], name: gateway-1}",
		"{type: router, labels: {gateway.networking.k8s.io/gateway-name: closed}, namespace: shop, addresses: [10.9.9.6], name: gateway-2}",
	}
}

// wrongObjects are all objects with mistakes.
func wrongObjects() []wrong { return slices.Concat(wrongGateways(), wrongRoutes()) }

// texts replaces the placeholders in objects.
type texts struct{ replacements []string }

// newTexts returns the replacements of namespaces, and of certificates that it makes.
func newTexts(shop, other string) texts {
	authority := pki.Authority("gateway-api")
	issue := func(until time.Time) *pki.Pair {
		return authority.Issue(&x509.Certificate{NotAfter: until, NotBefore: until.Add(-48 * time.Hour), DNSNames: []string{"www.example.com"}})
	}
	valid, expired := issue(time.Now().Add(24*time.Hour)), issue(time.Now().Add(-24*time.Hour))
	encode := base64.StdEncoding.EncodeToString
	secret := func(certificate, key *pki.Pair) string {
		return fmt.Sprintf("{tls.crt: %s, tls.key: %s}", encode(certificate.CertificatePEM()), encode(key.KeyPEM()))
	}
	return texts{[]string{
		"$CERTIFICATE", secret(valid, valid), "$EXPIRED", secret(expired, expired), "$MISMATCH", secret(valid, expired),
		"$AUTHORITY", fmt.Sprintf("{ca.crt: %q}", authority.CertificatePEM()), "$SHOP", shop, "$OTHER", other,
	}}
}

// of returns a text of an object with the given name.
func (x texts) of(text, name string) string {
	return strings.NewReplacer(append([]string{"$NAME", name}, x.replacements...)...).Replace(text)
}

// gatewayOutcome is the outcome of a mesh with the good objects and others.
type gatewayOutcome struct {
	outcome
	statuses map[config.Key]*gatewayapi.Status
	found    []config.Problem
}

// applyGatewayAPI sends the good objects, and then others, to a mesh.
func applyGatewayAPI(t *testing.T, good string, objects []decode.Decoded) gatewayOutcome {
	t.Helper()
	m := fixture.New(t, []byte(good), nil)
	var list []*config.Config
	var found []config.Problem
	for _, o := range objects {
		found = append(found, o.Problems...)
		if o.Config != nil {
			list = append(list, o.Config)
		}
	}
	s, _ := m.Send(fixture.Events(mesh.Upsert, list...)...)
	out := gatewayOutcome{outcome: observe(t, s, found, gatewayProxies()), statuses: map[config.Key]*gatewayapi.Status{}}
	out.found = slices.Concat(found, s.Problems())
	for k, status := range m.GatewayStatuses().All() {
		out.statuses[k] = status
	}
	return out
}

// conditionsOf returns the conditions of a status, also of its listeners, parents and ancestors, as
// TYPE=STATUS/REASON.
func conditionsOf(t testing.TB, status any) []string {
	t.Helper()
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	var list []string
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, e := range x {
				walk(e)
			}
		case map[string]any:
			if x["reason"] != nil && x["type"] != nil {
				list = append(list, fmt.Sprintf("%v=%v/%v", x["type"], x["status"], x["reason"]))
			}
			for _, e := range x {
				walk(e)
			}
		}
	}
	walk(parsed)
	slices.Sort(list)
	return slices.Compact(list)
}

// withoutCounts renders a status without the numbers of attached routes and ListenerSets.
func withoutCounts(t *testing.T, s *gatewayapi.Status) string {
	t.Helper()
	if s == nil {
		return ""
	}
	text, err := json.MarshalIndent(s.Value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, `"attachedRoutes"`) || strings.Contains(line, `"attachedListenerSets"`)
	})
	return strings.Join(lines, "\n")
}

// requireNamed fails the test unless a Problem names the object and the field of a mistake, and the
// status of the object has its condition.
func (w wrong) requireNamed(t *testing.T, k config.Key, with gatewayOutcome) {
	t.Helper()
	var fields []string
	for _, p := range with.found {
		if p.Key == k {
			fields = append(fields, p.Field+": "+p.Reason)
		}
	}
	if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, w.field+": ") }) {
		t.Errorf("no Problem names %s of %s: %q", w.field, k, fields)
	}
	status := with.statuses[k]
	switch {
	case w.condition == "" && status != nil && len(conditionsOf(t, status.Value)) > 0:
		t.Errorf("%s has conditions, but no Gateway or target of this controller: %+v", k, status.Value)
	case w.condition == "":
	case status == nil:
		t.Errorf("%s has no status, want %s", k, w.condition)
	default:
		if list := conditionsOf(t, status.Value); !slices.Contains(list, w.condition) {
			t.Errorf("conditions of %s are %q, want %s", k, list, w.condition)
		}
	}
}

// requireUnchanged fails the test unless the good objects have their statuses, and every resource its
// content: a resource that wrong objects have a part in still has all that the good ones have.
func requireUnchanged(t *testing.T, objects []decode.Decoded, without, with gatewayOutcome) {
	t.Helper()
	for k, before := range without.statuses {
		if diff := gocmp.Diff(withoutCounts(t, before), withoutCounts(t, with.statuses[k])); diff != "" {
			t.Errorf("the status of %s changed (-without +with):\n%s", k, diff)
		}
	}
	compare(t, "resources", objects, without.outcome, with.outcome)
	for i := range without.sent {
		for id, before := range without.sent[i] {
			if after := with.sent[i][id]; after != nil && after.Version != before.Version {
				if missing := missingParts(t, before, after); missing != "" {
					t.Errorf("%s of proxy %d lost %s", id, i, missing)
				}
			}
		}
	}
}

// TestWrongGatewayAPIObjects adds objects with mistakes to good objects of the Gateway API, one by
// one and together. Each is named by a Problem and by its status, and the good ones keep their
// configuration and their statuses.
func TestWrongGatewayAPIObjects(t *testing.T) {
	text := newTexts("shop", "other")
	good := text.of(goodGatewayAPI, "")
	without := applyGatewayAPI(t, good, nil)
	if len(without.problems) != 0 {
		t.Fatalf("the good objects have Problems: %q", without.problems)
	}
	for k, s := range without.statuses {
		for _, c := range conditionsOf(t, s.Value) {
			if strings.HasPrefix(c, "Accepted=False") || strings.HasPrefix(c, "ResolvedRefs=False") {
				t.Fatalf("%s has the condition %s", k, c)
			}
		}
	}
	var all []decode.Decoded
	var keys []config.Key
	for i, w := range wrongObjects() {
		objects := decode.Manifest("wrong.yaml", []byte(text.of(w.text, fmt.Sprintf("wrong-%d", i))))
		all, keys = append(all, objects...), append(keys, objects[0].Key)
		t.Run(w.mistake, func(t *testing.T) {
			with := applyGatewayAPI(t, good, objects)
			w.requireNamed(t, objects[0].Key, with)
			requireUnchanged(t, objects, without, with)
		})
	}
	t.Run("together", func(t *testing.T) {
		with := applyGatewayAPI(t, good, all)
		for i, w := range wrongObjects() {
			w.requireNamed(t, keys[i], with)
		}
		requireUnchanged(t, all, without, with)
	})
	if len(all) < 50 {
		t.Errorf("only %d wrong objects", len(all))
	}
}
