package authorization

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/test/conformance/authorization/reference"
)

// policyGenerator makes random AuthorizationPolicies. It shares its values with randomCalls, so
// that rules match often.
type policyGenerator struct {
	*rand.Rand
	// addresses are those of the destinations.
	addresses []string
	// domains are the mesh's trust domains, the first its own.
	domains []string
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// chance is true with a probability of p.
func (g *policyGenerator) chance(p float64) bool { return g.Float64() < p }

// some returns one or two values of a list.
func (g *policyGenerator) some(list []string) []string {
	values := []string{pick(g.Rand, list)}
	if g.chance(0.4) {
		values = append(values, pick(g.Rand, list))
	}
	return values
}

// set fills a field or its negation.
func (g *policyGenerator) set(values, notValues *[]string, list []string) {
	if g.chance(0.35) {
		*notValues = g.some(list)
		if g.chance(0.7) {
			return
		}
	}
	*values = g.some(list)
}

// policy makes one that selects workloads by labels.
func (g *policyGenerator) policy(namespace, name string, labels map[string]string) reference.Policy {
	spec := &security.AuthorizationPolicy{Selector: &typev1beta1.WorkloadSelector{MatchLabels: labels}}
	rules := 1 + g.IntN(3)
	switch n := g.Float64(); {
	case n < 0.40:
		spec.Action = security.AuthorizationPolicy_DENY
	case n < 0.46:
		spec.Action = security.AuthorizationPolicy_AUDIT
	case n < 0.48:
		rules = 0
	}
	for range rules {
		spec.Rules = append(spec.Rules, g.rule())
	}
	dryRun := spec.GetAction() != security.AuthorizationPolicy_AUDIT && g.chance(0.12) // it is for ALLOW and DENY
	return reference.Policy{Namespace: namespace, Name: name, DryRun: dryRun, Spec: spec}
}

func (g *policyGenerator) rule() *security.Rule {
	r := new(security.Rule)
	for range g.IntN(3) {
		r.From = append(r.From, &security.Rule_From{Source: g.source()})
	}
	for range g.IntN(3) {
		r.To = append(r.To, &security.Rule_To{Operation: g.operation()})
	}
	if g.chance(0.35) {
		for range 1 + g.IntN(2) {
			r.When = append(r.When, g.condition())
		}
	}
	return r
}

func (g *policyGenerator) source() *security.Source {
	s := new(security.Source)
	accounts := g.chance(0.2)
	for range 1 + g.IntN(2) {
		switch g.IntN(7) {
		case 0:
			g.set(&s.IpBlocks, &s.NotIpBlocks, []string{"127.10.0.0/16", "127.10.0.1", "127.0.0.0/8", "127.11.0.2/32", "10.0.0.0/8"})
		case 1:
			g.set(&s.RemoteIpBlocks, &s.NotRemoteIpBlocks, []string{"203.0.113.0/24", "203.0.113.4", "127.10.0.0/16", "2001:db8::/32", "127.0.0.1"})
		case 2:
			g.set(&s.RequestPrincipals, &s.NotRequestPrincipals, g.requestPrincipals())
		case 3:
			g.set(&s.TrustDomains, &s.NotTrustDomains, g.trustDomains())
		case 4, 5:
			if accounts {
				g.set(&s.ServiceAccounts, &s.NotServiceAccounts, g.serviceAccounts())
			} else {
				g.set(&s.Principals, &s.NotPrincipals, g.principals())
			}
		default:
			if accounts {
				g.set(&s.ServiceAccounts, &s.NotServiceAccounts, g.serviceAccounts())
			} else {
				g.set(&s.Namespaces, &s.NotNamespaces, g.namespaces())
			}
		}
	}
	return s
}

func (*policyGenerator) requestPrincipals() []string {
	return []string{"*", "https://issuer.example.com/*", "*/jason", "https://issuer.example.com/anna", "https://issuer.example.com/bot", "anna", "*son", "https://issuer.ex*", "*example.com/bot", "*/tenant/jason", "https://issuer.example.com/tenant/*"}
}

func (g *policyGenerator) trustDomains() []string {
	return append([]string{"*", "stranger.example", "*.nowhere"}, g.domains...)
}

func (*policyGenerator) namespaces() []string {
	return []string{"a", "b", "shop", "a*", "*b", "*", "a-b", "a.b", "ab"}
}

func (*policyGenerator) serviceAccounts() []string {
	return []string{"a/x", "a/y", "b/x", "x", "shop/x", "a-b/x.y", "a-b/xzy"}
}

func (g *policyGenerator) principals() []string {
	list := []string{"*", "*/ns/a/sa/x", "*/sa/y", "*x", "stranger.example/ns/a/sa/x", "spiffe://" + g.domains[0] + "/ns/a/sa/x"}
	for _, d := range g.domains {
		list = append(list, d+"/ns/a/sa/x", d+"/ns/a/*", d+"/ns/b/sa/x", d+"/ns/a-b/sa/x.y", d+"/ns/a-b/sa/xzy", d+"/ns/a/sa/*")
	}
	return list
}

func (g *policyGenerator) operation() *security.Operation {
	o := new(security.Operation)
	for range 1 + g.IntN(2) {
		switch g.IntN(4) {
		case 0:
			g.set(&o.Hosts, &o.NotHosts, []string{"a.example.com", "*.example.com", "a.*", "*", "internal", "B.EXAMPLE.com", "*example.com", "axexample.com"})
		case 1:
			g.set(&o.Methods, &o.NotMethods, []string{"GET", "POST", "P*", "*ET", "*", "delete", "DELETE"})
		case 2:
			g.set(&o.Paths, &o.NotPaths, g.paths())
		default:
			g.set(&o.Ports, &o.NotPorts, []string{"8001", "8002", "9001", "9002", "80"})
		}
	}
	return o
}

func (*policyGenerator) paths() []string {
	return []string{
		"/a", "/admin", "/admin*", "*/x", "/a/*", "*", "/", "/{*}/x", "/a/{**}", "/{*}", "/a/{*}/b/{**}", "*.b", "/x;y", "/a/{**}/x", "/a/admin",
		"/b/c*", "/Admin", "*/", "/a//*",
	}
}

func (g *policyGenerator) condition() *security.Condition {
	w := new(security.Condition)
	options := []struct {
		key    string
		values []string
	}{
		{"source.ip", []string{"127.10.0.0/16", "127.0.0.1", "10.0.0.0/8"}},
		{"remote.ip", []string{"203.0.113.0/24", "127.10.0.1", "127.0.0.0/8"}},
		{"destination.ip", append([]string{"127.0.0.0/8", "10.0.0.0/8"}, g.addresses...)},
		{"destination.port", []string{"8001", "8002", "9001"}},
		{"source.principal", g.principals()},
		{"source.namespace", g.namespaces()},
		{"source.serviceAccount", g.serviceAccounts()},
		{"source.trustDomain", g.trustDomains()},
		{"connection.sni", []string{"*", "outbound_.8001_._.w*", "*.shop", "a.example.com"}},
		{"request.auth.principal", g.requestPrincipals()},
		{"request.auth.audiences", []string{"shop", "kitchen", "*", "k*", "none"}},
		{"request.auth.presenter", []string{"portal", "*", "*tal", "none"}},
		{"request.auth.claims[groups]", []string{"readers", "writers", "*", "w*", "none"}},
		{"request.auth.claims[group]", []string{"readers", "*", "none"}},
		{"request.auth.claims[realm][roles]", []string{"chef", "c*", "none"}},
		{"request.auth.claims[realm][name]", []string{"kitchen", "*", "none"}},
		{"request.headers[x-a]", []string{"1", "2", "1*", "*2", "*", "1,2"}},
		{"request.headers[X-B]", []string{"v.1", "vx1", "*", "v*"}},
	}
	o := pick(g.Rand, options)
	w.Key = o.key
	g.set(&w.Values, &w.NotValues, o.values)
	return w
}

// policyText is a policy as users write it.
func policyText(t testing.TB, p reference.Policy) string {
	t.Helper()
	spec, err := protojson.Marshal(p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	metadata := map[string]any{"name": p.Name, "namespace": p.Namespace}
	if p.DryRun {
		metadata["annotations"] = map[string]string{"istio.io/dry-run": "true"}
	}
	text, err := json.Marshal(map[string]any{"kind": "AuthorizationPolicy", "metadata": metadata, "spec": json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\n", text)
}
