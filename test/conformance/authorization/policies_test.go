package authorization

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// leastCases are judged twice, or the test proves too little.
const leastCases = 150

// TestExplained judges every case by package explain.
func TestExplained(t *testing.T) {
	tokens := newTokens(t)
	for _, s := range readScenes(t) {
		s.withKeys(tokens)
		t.Run(s.name, func(t *testing.T) {
			s.generate(t, "/dev/null")
			for _, c := range s.cases {
				t.Run(c.Name, func(t *testing.T) {
					path := c.explained(t, tokens)
					verdict, said := verdictOf(path)
					for _, w := range c.judge(t, verdict, said) {
						t.Error(w)
					}
					if !strings.Contains(path.String(), c.Because) {
						t.Errorf("the explanation does not contain %q", c.Because)
					}
					if t.Failed() {
						t.Logf("\n%s", path)
					}
				})
			}
		})
	}
}

// explained returns the explanation of a case.
func (c *testCase) explained(t testing.TB, tokens *tokens) *explain.Path {
	t.Helper()
	w, _ := c.target(t)
	path, err := explain.Explain(c.scene.resources[w.Name], c.call(t, tokens))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReal makes the calls of all cases to a real Envoy. The results must equal what the case
// expects and what package explain computes.
func TestReal(t *testing.T) {
	begin := time.Now()
	scenes, tokens, authority := readScenes(t), newTokens(t), newSecrets()
	for _, s := range scenes {
		s.withKeys(tokens)
	}
	logPath := start(t, scenes, authority, tokens)
	t.Logf("the Envoy took %s to start", time.Since(begin).Round(time.Millisecond))
	outcomes := map[*testCase]outcome{}
	var logged []string
	for _, s := range scenes {
		for _, c := range s.cases {
			o := c.do(t.Context(), t, authority, tokens)
			outcomes[c] = o
			if c.mustBeLogged(t, o) {
				logged = append(logged, c.logKey(o))
			}
		}
	}
	log := readLog(t, logPath, logged)
	for _, s := range scenes {
		for _, c := range s.cases {
			t.Run(c.id(), func(t *testing.T) { c.compare(t, outcomes[c], log, tokens) })
		}
	}
	t.Logf("%d cases took %s", len(outcomes), time.Since(begin).Round(time.Millisecond))
	if len(outcomes) < leastCases {
		t.Errorf("%d cases were called, want at least %d", len(outcomes), leastCases)
	}
}

// compare compares the real result of a case with its expectation, and with the explanation.
func (c *testCase) compare(t *testing.T, o outcome, log accessLog, tokens *tokens) {
	t.Helper()
	really := log[c.logKey(o)]
	for _, w := range c.judge(t, o.verdict(), really) {
		t.Errorf("really %s", w)
	}
	if c.Audited != nil && really.audited != *c.Audited {
		t.Errorf("it is really audited: %v, want %v", really.audited, *c.Audited)
	}
	if c.Sees != "" && o.body != c.Sees {
		t.Errorf("the application really gets the path %s, want %s", o.body, c.Sees)
	}
	path := c.explained(t, tokens)
	verdict, explained := verdictOf(path)
	if verdict != o.verdict() {
		t.Errorf("disagree: explained %s, really %s", verdict, o)
	}
	if explained.details != really.details && (explained.details != "" || strings.HasPrefix(really.details, "rbac")) {
		t.Errorf("disagree: the reason is explained as %q, really %q", explained.details, really.details)
	}
	if diff := cmp.Diff(explained.tried, really.tried); diff != "" && o.ended == nil {
		t.Errorf("different results of dry-run rules (-explained +real):\n%s", diff)
	}
	if up := path.Endings[0].Upstream; up != nil && o.verdict() == "allow" && up.Path != o.body && up.Method != http.MethodHead {
		t.Errorf("disagree: the application's path is explained as %s, really %s", up.Path, o.body)
	}
	if t.Failed() {
		t.Logf("real result %s, explained: %+v\n%s", o, really, path)
	}
}

// mustBeLogged reports whether the access log must have a line of the call: failed handshakes have
// none, and requests that cannot be parsed have no name.
func (c *testCase) mustBeLogged(t testing.TB, o outcome) bool {
	return o.ended == nil && o.verdict() != "bad" || c.expected(t).Details != "" && o.verdict() == "closed"
}

// logKey returns the key of a case's call in the access log.
func (c *testCase) logKey(o outcome) string {
	if c.Call != "" && o.ended == nil {
		return c.key()
	}
	return o.caller
}

// withKeys puts the keys of the test's tokens where a scene wants them.
func (s *scene) withKeys(tokens *tokens) {
	s.objects = []byte(strings.ReplaceAll(string(s.objects), "JWKS", tokens.keys))
}
