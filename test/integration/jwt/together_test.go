package jwt

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
)

const guardedText = `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: guarded, namespace: istio-system}
spec: {jwtRules: [{issuer: %[1]s, jwksUri: "%[2]s/keys", fromHeaders: [{name: x-guard}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: guarded, namespace: istio-system}
spec: {rules: [{from: [{source: {requestPrincipals: ["%[1]s/*"]}}]}]}
`

// TestAppliedTogether repeatedly changes rules for tokens and the policy that depends on them in
// one file, under calls that no version allows: none of them is allowed in between. Each time the
// keys must be fetched first, so that the rules wait for them.
func TestAppliedTogether(t *testing.T) {
	s := openShop(t)
	s.eventually(t, "/", "200 all")
	var good atomic.Pointer[string]
	var forged [2]string
	change := func(n int) {
		i := newIssuer(t, fmt.Sprintf("issuer-%d.example.com", n), "one")
		keys := newPublisher(t)
		keys.publish(i.keys())
		keys.thinks.Store(int64(time.Duration(n%4) * 50 * time.Millisecond))
		s.Write("guarded.yaml", fmt.Sprintf(guardedText, i.name, keys.URL))
		token := "x-guard: " + i.token(nil)
		s.eventually(t, "/", "200 all", token)
		good.Store(&token)
	}
	change(0)
	s.eventually(t, "/", "403") // before there was a policy, all passed
	for n := range forged {
		forged[n] = "x-guard: " + newIssuer(t, fmt.Sprintf("issuer-%d.example.com", n), "one").token(nil)
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var refused atomic.Int64
	for name, headers := range map[string][]string{
		"no token": nil, "a forged one": {forged[0]}, "another forged one": {forged[1]}, "of nobody": {"x-guard: " + newIssuer(t, "nobody", "one").token(nil)}, "no token at all": {"x-guard: x"},
		"without signature": {"x-guard: " + unsigned("issuer-1.example.com", "")},
	} {
		callers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond): // some hundred in a second, for each
				}
				err := s.says(client, "/", "40", headers...)
				if err != nil {
					t.Errorf("a call with %s: %v", name, err)
					return
				}
				refused.Add(1)
			}
		})
	}
	const changes = 8
	for n := range changes {
		change(n + 1)
	}
	gatewayenv.Eventually(t, "the last rules", func() error { return s.says(http.DefaultClient, "/", "200 all", *good.Load()) })
	close(stop)
	callers.Wait()
	t.Logf("%d calls refused through %d changes", refused.Load(), changes)
	if refused.Load() < 100 || strings.TrimSpace(*good.Load()) == "" {
		t.Errorf("only %d calls were made", refused.Load())
	}
}
