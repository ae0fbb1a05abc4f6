package secret

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func lines(list []config.Problem) []string {
	var out []string
	for _, p := range list {
		out = append(out, string(p.Severity)+" "+p.String())
	}
	return out
}

func TestProblems(t *testing.T) {
	a, key := newAuthority("root"), pki.NewKey()
	leaf, private := a.leaf(key, longAgo, farOff), pkcs8(key)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{
			"in order",
			manifest("Secret", "default", "x", map[string]string{"tls.crt": leaf, "tls.key": private, "ca.crt": a.pem}),
			nil,
		},
		{"for others", manifest("Secret", "default", "x", map[string]string{"key": "an API key", "password": "x"}) +
			manifest("ConfigMap", "default", "kube-root-ca.crt", map[string]string{"ca.crt": "x"}), nil},
		{"another's key", manifest(
			"Secret",
			"default",
			"x",
			map[string]string{"tls.crt": leaf, "tls.key": pkcs8(pki.NewKey())},
		),
			[]string{"error Secret/default/x: data[tls.key]: is not the key of the certificate in tls.crt"}},
		{"by type", "kind: Secret\nmetadata: {name: x}\ntype: kubernetes.io/tls\n", []string{
			"error Secret/default/x: data[tls.crt]: is missing; there is no data", "error Secret/default/x: data[tls.key]: is missing; there is no data",
		}},
		{"expired", manifest(
			"Secret",
			"default",
			"x",
			map[string]string{"cert": a.leaf(key, longAgo, now.Add(-time.Second)), "key": private},
		),
			[]string{
				`warning Secret/default/x: data[cert]: the certificate of "CN=leaf" expired on 2025-12-31 23:59:59`,
			}},
		{"not yet", manifest(
			"Secret",
			"default",
			"x",
			map[string]string{"cert": a.leaf(key, now.Add(time.Second), farOff), "key": private},
		),
			[]string{
				`warning Secret/default/x: data[cert]: the certificate of "CN=leaf" is not valid before 2026-01-01 00:00:01`,
			}},
		{"named by a Gateway", manifest("Secret", "other", "x", map[string]string{"password": "x"}) + `
---
kind: Gateway
metadata: {name: g}
spec:
  selector: {a: b}
  servers:
  - {hosts: ["*"], port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: x}}
  - {hosts: ["*"], port: {number: 444, name: https-2, protocol: HTTPS}, tls: {mode: SIMPLE, credentialNames: [w]}}
`, []string{
			"error Secret/other/x: data[tls.crt]: is missing; there is password", "error Secret/other/x: data[tls.key]: is missing; there is password",
			`warning Gateway/default/g: spec.servers[1].tls.credentialNames[0]: there is no Secret "w" in the namespace of the selected proxies, or unset`,
		}},
		{"named by a Gateway as external", manifest("Secret", "other", "x", map[string]string{"password": "x"}) + `
---
kind: Gateway
metadata: {name: g}
spec:
  selector: {a: b}
  servers:
  - {hosts: ["*"], port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: "sds://x"}}
  - {hosts: ["*"], port: {number: 444, name: https-2, protocol: HTTPS}, tls: {mode: SIMPLE, credentialNames: ["sds://w"]}}
`, []string{
			"error Secret/other/x: data[tls.crt]: is missing; there is password", "error Secret/other/x: data[tls.key]: is missing; there is password",
		}},
		{"named by a DestinationRule", manifest(
			"Secret",
			"default",
			"roots-cacert",
			map[string]string{"cacert": "x"},
		) + `
---
kind: DestinationRule
metadata: {name: d}
spec:
  host: a
  trafficPolicy:
    tls: {mode: SIMPLE, credentialName: roots}
    portLevelSettings: [{port: {number: 1}, tls: {mode: SIMPLE, credentialName: "configmap://ns/y"}}]
  subsets: [{name: s, trafficPolicy: {tls: {mode: SIMPLE, credentialName: "sds://theirs"}}}]
`, []string{
			"error Secret/default/roots-cacert: data[cacert]: has no certificate in PEM",
			`warning DestinationRule/default/d: spec.trafficPolicy.portLevelSettings[0].tls.credentialName: there is no ConfigMap "y" in the namespace ns, or unset`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lines(new(Inspector).Problems(fixture.New(t, []byte(c.config), nil).Snapshot(), now))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestProblemsOverTime: one Inspector reports at each time the Problems that exist then, also of
// objects that it has inspected before.
func TestProblemsOverTime(t *testing.T) {
	a, key := newAuthority("root"), pki.NewKey()
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text := manifest(
		"Secret",
		"default",
		"x",
		map[string]string{"tls.crt": a.leaf(key, longAgo, end), "tls.key": pkcs8(key)},
	)
	m := fixture.New(t, []byte(text), nil)
	i := new(Inspector)
	for _, c := range []struct {
		at   time.Time
		want int
	}{{end.Add(-time.Hour), 0}, {end.Add(time.Hour), 1}, {end.Add(-time.Hour), 0}} {
		if got := i.Problems(m.Snapshot(), c.at); len(got) != c.want {
			t.Errorf("at %v: %q, want %d", c.at, lines(got), c.want)
		}
	}
	m.Delete(t, text)
	if got := i.Problems(m.Snapshot(), end.Add(time.Hour)); len(got) != 0 || len(i.verdicts) != 0 {
		t.Errorf("without the Secret: %q, remembers %d", lines(got), len(i.verdicts))
	}
}

// TestNoKeyInProblems: whatever the mistake in a Secret, no Problem quotes a line of its content.
func TestNoKeyInProblems(t *testing.T) {
	told := 0
	for _, c := range append(pairCases(t), objectCase{
		name: "plain text", data: map[string]string{
			"tls.crt": "the text of a secret",
			"tls.key": "another text of a secret",
		},
	}) {
		_, faults := pairOf(objectOf(t, c.data))
		for _, f := range texts(faults) {
			told++
			for _, text := range c.data {
				for line := range strings.Lines(text) {
					if line = strings.TrimSpace(line); len(line) > 16 && strings.Contains(f, line) {
						t.Errorf("%s: the Problem quotes %q", c.name, f)
					}
				}
			}
		}
	}
	if told < 10 {
		t.Errorf("only %d faults: the test is not effective", told)
	}
}
