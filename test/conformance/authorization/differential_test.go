package authorization

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/conformance/authorization/reference"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// Flags of the test binary, which must exist before the testing package parses them.
var (
	verdicts = flag.Int("verdicts", scorecard.BySize(longtest.Rounds(1_000, 20_000), 100_000, 1_000_000), "how many random calls TestRandomPolicies judges")
	seed     = flag.Uint64("seed", 1, "of TestRandomPolicies' first batch; the next one has the next")
)

const (
	workloadsPerBatch  = 40
	callsPerBatch      = 5_000
	requestsPerSession = 12
	rawShare           = 12 // one call of so many is a raw connection
)

// differential is one Envoy with random policies, and the random calls that it judges.
type differential struct {
	scene    *scene
	policies []reference.Policy
	targets  map[*workload]reference.Workload
	tokens   *tokens
	// sessions are cases that share a connection.
	sessions [][]*testCase
}

// TestRandomPolicies compares three verdicts of random calls under random policies: that of a real Envoy with the generated
// configuration, that of package reference, and that of package explain. They must agree on the verdict, Envoy must name a rule
// that matches, and the results of dry-run policies must be the same.
func TestRandomPolicies(t *testing.T) {
	check := scorecard.Check(t, 35, scorecard.Size("verdicts", *verdicts))
	envoy.RequireBinary(t)
	own, tokens, authority := ownAddresses(t), newTokens(t), newSecrets()
	counts, judged := map[string]int{}, 0
	policies := 0
	began := time.Now()
	for batch := 0; judged < *verdicts; batch++ {
		n := min(callsPerBatch, *verdicts-judged)
		t.Run(fmt.Sprintf("seed-%d", *seed+uint64(batch)), func(t *testing.T) {
			d := newDifferential(t, *seed+uint64(batch), own, tokens, n)
			policies += len(d.policies)
			d.compare(t, authority, counts)
		})
		if judged += n; t.Failed() {
			break
		}
	}
	check.Measured("policies", policies)
	check.Measured("requests judged", judged)
	check.Measured("mismatches", counts["mismatch"])
	t.Logf("%d random calls in %s: %v", judged, time.Since(began).Round(time.Second), counts)
	for _, kind := range []string{"http allow", "http deny", "http unauthenticated", "tcp allow", "tcp deny", "dry run"} {
		if counts[kind]*200 < judged {
			t.Errorf("%d calls of %q: the test shows too little of them", counts[kind], kind)
		}
	}
}

// newDifferential makes the mesh of a batch.
func newDifferential(t testing.TB, seed uint64, own string, tokens *tokens, calls int) *differential {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 35))
	domains := []string{"cluster.local"}
	meshConfig := ""
	if seed%3 == 0 {
		domains = []string{"new.example", "old.example"}
		meshConfig = "trustDomain: new.example\ntrustDomainAliases: [old.example]\n"
	}
	level := []string{"BASE", "MERGE_SLASHES", "DECODE_AND_MERGE_SLASHES", "NONE"}[seed%4]
	meshConfig += "pathNormalization: {normalization: " + level + "}\n"
	d := &differential{
		scene:  &scene{name: fmt.Sprintf("seed-%d", seed), meshConfig: []byte(meshConfig)},
		tokens: tokens, targets: map[*workload]reference.Workload{},
	}
	g := &policyGenerator{Rand: r, domains: domains}
	var objects []string
	for i := range workloadsPerBatch {
		w := &workload{
			Name: fmt.Sprintf("w%d", i), Namespace: pick(r, []string{"shop", "a"}), Address: netip.MustParseAddr(fmt.Sprintf("%s42.%d", own, i+1)),
			Labels: map[string]string{"app": fmt.Sprintf("w%d", i), "tier": pick(r, []string{"t0", "t1", "t2", "t3"}), "tokens": pick(r, []string{"yes", "yes", "no"})},
		}
		d.scene.workloads = append(d.scene.workloads, w)
		d.targets[w] = reference.Workload{Namespace: w.Namespace, Labels: w.Labels, TrustDomains: domains, Normalization: level}
		g.addresses = append(g.addresses, w.Address.String())
		objects = append(objects, fmt.Sprintf("{kind: Service, metadata: {name: w%d, namespace: %s}, spec: {clusterIP: 10.96.42.%d, selector: {app: w%[1]d}, ports: ["+
			"{name: http-1, port: 8001}, {name: http-2, port: 8002}, {name: tcp-1, port: 9001}, {name: tcp-2, port: 9002}]}}\n", i, w.Namespace, i+1))
	}
	for i, w := range d.scene.workloads {
		for k := range 1 + r.IntN(3) {
			d.policies = append(d.policies, g.policy(w.Namespace, fmt.Sprintf("p%d-%d", i, k), map[string]string{"app": w.Labels["app"]}))
		}
	}
	for _, namespace := range []string{"shop", reference.RootNamespace} {
		d.policies = append(d.policies, g.policy(namespace, "shared", map[string]string{"tier": "t0"}))
	}
	for _, p := range d.policies {
		objects = append(objects, policyText(t, p))
	}
	for _, namespace := range []string{"shop", "a"} {
		objects = append(objects, fmt.Sprintf("{kind: RequestAuthentication, metadata: {name: tokens, namespace: %s}, "+
			"spec: {selector: {matchLabels: {tokens: \"yes\"}}, jwtRules: [{issuer: \"https://issuer.example.com\", jwks: 'JWKS'}]}}\n", namespace))
	}
	d.scene.objects = []byte(strings.Join(objects, "---\n"))
	d.scene.withKeys(tokens)
	d.randomCalls(r, domains, calls)
	return d
}

// randomCalls makes connections with many requests each, and raw connections, which have one exchange of bytes.
func (d *differential) randomCalls(r *rand.Rand, domains []string, calls int) {
	add := func(list *[]*testCase, c testCase) {
		c.Name = fmt.Sprint(len(d.scene.cases))
		*list = append(*list, &c)
		d.scene.cases = append(d.scene.cases, &c)
	}
	for range calls / rawShare {
		var list []*testCase
		add(&list, randomConnection(r, d.scene, pick(r, d.scene.workloads), domains, "9001", "9002"))
		d.sessions = append(d.sessions, list)
	}
	for len(d.scene.cases) < calls {
		var list []*testCase
		c := randomConnection(r, d.scene, pick(r, d.scene.workloads), domains, "8001", "8002")
		for range min(requestsPerSession, calls-len(d.scene.cases)) {
			add(&list, randomRequest(r, c))
		}
		d.sessions = append(d.sessions, list)
	}
}

// compare makes all calls and judges them.
func (d *differential) compare(t *testing.T, authority *secrets, counts map[string]int) {
	t.Helper()
	logPath := start(t, []*scene{d.scene}, authority, d.tokens)
	outcomes := d.call(t, authority)
	var logged []string
	for c, o := range outcomes {
		if d.isLogged(c, o) {
			logged = append(logged, c.logKey(o))
		}
	}
	log := readLog(t, logPath, logged)
	failures := 0
	for _, c := range d.scene.cases {
		wrong := d.judge(t, c, outcomes[c], log, counts)
		if len(wrong) == 0 {
			continue
		}
		if failures++; failures <= 5 {
			w, port := c.target(t)
			t.Errorf("to %s:%d (%v) as %q from %s sni %q: %q host %q headers %q token %q:\n\t%s\nwith\n%s%s", w.Namespace+"/"+w.Name, port, w.Labels, c.As, c.From, c.SNI,
				c.Call, c.Host, c.Headers, c.Token, strings.Join(wrong, "\n\t"), d.policiesOf(t, w), c.explained(t, d.tokens))
		}
	}
	if counts["mismatch"] += failures; failures > 0 {
		t.Errorf("%d of %d calls are judged differently", failures, len(d.scene.cases))
	}
}

// call makes the calls of all sessions.
func (d *differential) call(t *testing.T, authority *secrets) map[*testCase]outcome {
	t.Helper()
	outcomes := map[*testCase]outcome{}
	for _, list := range d.sessions {
		maps.Copy(outcomes, d.callAll(t, authority, list))
	}
	return outcomes
}

// callAll makes calls over one connection, and another where that is closed.
func (d *differential) callAll(t *testing.T, authority *secrets, list []*testCase) map[*testCase]outcome {
	t.Helper()
	out := map[*testCase]outcome{}
	var s *session
	for _, c := range list {
		if s == nil {
			var err error
			if s, err = c.open(t.Context(), t, authority); err != nil {
				out[c] = outcome{ended: err}
				continue
			}
		}
		o, usable := s.send(t.Context(), c, d.tokens)
		if out[c] = o; !usable {
			s.close()
			s = nil
		}
	}
	if s != nil {
		s.close()
	}
	return out
}

// isLogged reports whether the access log has a line that names the call.
func (*differential) isLogged(c *testCase, o outcome) bool {
	return o.caller != "" && (c.Call == "" || o.ended == nil && o.status != http.StatusBadRequest)
}

// judge returns how verdicts of a call differ.
func (d *differential) judge(t *testing.T, c *testCase, o outcome, log accessLog, counts map[string]int) (wrong []string) {
	t.Helper()
	w, port := c.target(t)
	target := d.targets[w]
	v := reference.Evaluate(d.policies, target, c.referenceCall(w, port, d.tokens))
	if c.Token != "" && w.Labels["tokens"] != "yes" {
		call := c.referenceCall(w, port, d.tokens)
		call.Claims = nil // nothing validates it
		v = reference.Evaluate(d.policies, target, call)
	}
	want, kind := "deny", "http "
	switch {
	case c.Call != "" && w.Labels["tokens"] == "yes" && isRefusedToken(c.Token):
		want = "unauthenticated"
	case v.Allowed:
		want = "allow"
	}
	got := o.verdict()
	if c.Call == "" {
		kind = "tcp "
		if got == "closed" {
			got = "deny"
		}
	}
	counts[kind+want]++
	if got != want {
		wrong = append(wrong, fmt.Sprintf("Envoy: %s, reference: %s (%+v)", o, want, v))
	}
	explained, _ := verdictOf(c.explained(t, d.tokens))
	if explained == "closed" && c.Call == "" {
		explained = "deny"
	}
	if explained != want {
		wrong = append(wrong, fmt.Sprintf("explain: %s, reference: %s", explained, want))
	}
	if want != "unauthenticated" && d.isLogged(c, o) {
		wrong = append(wrong, d.judgeReason(c, v, log[c.logKey(o)], counts)...)
	}
	return wrong
}

// judgeReason compares the rule that decided, and the results of dry-run policies, with the reference.
func (*differential) judgeReason(c *testCase, v reference.Verdict, really said, counts map[string]int) (wrong []string) {
	policies := func(rules []string) (out []string) {
		for _, r := range rules {
			namespace, rest, _ := strings.Cut(r, "/")
			name, rule, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
			out = append(out, fmt.Sprintf("ns[%s]-policy[%s]-rule[%s]", namespace, name, rule))
		}
		return out
	}
	switch by, _ := strings.CutPrefix(really.details, "rbac_access_denied_matched_policy["); {
	case len(v.Deny) > 0:
		if !slices.Contains(policies(v.Deny), strings.TrimSuffix(by, "]")) {
			wrong = append(wrong, fmt.Sprintf("Envoy was denied by %q, reference: %v", really.details, v.Deny))
		}
	case !v.Allowed:
		if by != "none]" {
			wrong = append(wrong, fmt.Sprintf("Envoy was denied by %q, reference: no ALLOW rule matches", really.details))
		}
	case v.HasAllow && c.Call != "": // the network filter notes no rule that allows
		if id := really.tried["enforced_effective_policy_id"]; !slices.Contains(policies(append(v.Allow, v.Audit...)), id) {
			wrong = append(wrong, fmt.Sprintf("Envoy allowed it by %q, reference: %v", id, v.Allow))
		}
	}
	if v.DryRunDeny+v.DryRunAllow != "" {
		counts["dry run"]++
	}
	got := really.tried["istio_dry_run_deny_shadow_engine_result"]
	if got == "" && c.Call == "" && v.DryRunDeny == "allowed" {
		got = "allowed" // a filter of raw connections has no rules that are of other ports only
	}
	if got != v.DryRunDeny {
		wrong = append(wrong, fmt.Sprintf("dry-run DENY: Envoy %q, reference %q", got, v.DryRunDeny))
	}
	if got := really.tried["istio_dry_run_allow_shadow_engine_result"]; got != v.DryRunAllow && len(v.Deny) == 0 {
		wrong = append(wrong, fmt.Sprintf("dry-run ALLOW: Envoy %q, reference %q", got, v.DryRunAllow))
	}
	return wrong
}

// policiesOf returns the text of the policies that may apply to a workload.
func (d *differential) policiesOf(t *testing.T, w *workload) string {
	t.Helper()
	var b strings.Builder
	for _, p := range d.policies {
		labels := p.Spec.GetSelector().GetMatchLabels()
		if labels["app"] == w.Labels["app"] || labels["tier"] == w.Labels["tier"] {
			b.WriteString(policyText(t, p))
		}
	}
	return b.String()
}
