package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// publisher serves an issuer's discovery document and its keys.
type publisher struct {
	*httptest.Server
	keys atomic.Pointer[string] // nil: the server is ill
	hits atomic.Int64
	// thinks is how long it takes for an answer, in nanoseconds.
	thinks atomic.Int64
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := new(publisher)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := p.keys.Load()
		select {
		case <-time.After(time.Duration(p.thinks.Load())):
		case <-r.Context().Done():
		}
		switch {
		case keys == nil:
			http.Error(w, "ill", http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.URL, p.URL+"/keys")
		default:
			p.hits.Add(1)
			fmt.Fprint(w, *keys)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) publish(keys string) { p.keys.Store(&keys) }

// shop is a gateway that leads to three services, by claims of tokens.
type shop struct {
	*gatewayenv.Edge
	port int
	keys *publisher
	kept string // the file that has keys for the next control plane
}

const shopText = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: istio-system}
spec:
  hosts: ["*"]
  gateways: [public]
  http:
  - match: [{headers: {"@request.auth.claims.group": {exact: admin}}}]
    directResponse: {status: 200, body: {string: admin}}
  - match: [{headers: {"@request.auth.claims[realm][tier]": {prefix: gold}}, uri: {prefix: /shop}}]
    directResponse: {status: 200, body: {string: gold}}
  - match: [{headers: {"@request.auth.claims.https://a/b": {}}}, {headers: {"@request.auth.claims[scope]": {exact: beta}}}]
    directResponse: {status: 200, body: {string: beta}}
  - match: [{withoutHeaders: {"@request.auth.claims.sub": {regex: "*"}}, uri: {prefix: /who}}]
    directResponse: {status: 200, body: {string: nobody}}
  - directResponse: {status: 200, body: {string: all}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: istio-system}
spec: {selector: {matchLabels: {istio: ingressgateway}}, jwtRules: [{issuer: a.example.com, jwksUri: "%[2]s/keys"}, {issuer: "%[2]s", fromHeaders: [{name: x-token}]}]}
`

func openShop(t *testing.T) *shop {
	t.Helper()
	keys := newPublisher(t)
	kept := t.TempDir()
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--caDir", kept}, Env: []string{"MESHPILOT_JWKS_LOOPBACK=true", "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL=200ms"}})
	s := &shop{Edge: e, port: serving.FreePort(t), keys: keys, kept: filepath.Join(kept, "meshpilot-issuer-keys.json")}
	e.Write("shop.yaml", fmt.Sprintf(shopText, s.port, keys.URL))
	return s
}

// says calls the gateway, and returns an error unless status and body are as expected.
func (s *shop) says(client *http.Client, path, want string, headers ...string) error {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))+path, nil)
	if err != nil {
		return err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if got := fmt.Sprintf("%d %s", answer.StatusCode, body); !strings.HasPrefix(got, want) {
		return fmt.Errorf("%s; want %s", got, want)
	}
	return nil
}

// eventually waits until the gateway answers so.
func (s *shop) eventually(t *testing.T, path, want string, headers ...string) {
	t.Helper()
	gatewayenv.Eventually(t, path, func() error { return s.says(http.DefaultClient, path, want, headers...) })
}

// problem waits until a Problem of the rules contains the text, or for "" until no Problem is left.
func (s *shop) problem(t *testing.T, text string) {
	t.Helper()
	gatewayenv.Eventually(t, "problems", func() error {
		body, err := serving.Page("http://" + s.Pages + "/debug/problemz")
		if err != nil {
			return err
		}
		if !strings.Contains(body, text) || text == "" && strings.Contains(body, "RequestAuthentication") {
			return fmt.Errorf("%s; want %q", body, text)
		}
		return nil
	})
}

// under makes calls with valid tokens, in a header, during a change, and counts the failed ones.
func (s *shop) under(t *testing.T, header func() string, happens func()) {
	t.Helper()
	const enough, patience = 20, 10 * time.Second // calls, and how long they may take
	var sent, failed atomic.Int64
	var last atomic.Pointer[string]
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond): // some hundred in a second, for each
				}
				sent.Add(1)
				if err := s.says(client, "/", "200 all", header()); err != nil {
					failed.Add(1)
					text := err.Error()
					last.Store(&text)
				}
			}
		})
	}
	happens()
	for end := time.Now().Add(patience); sent.Load() < enough && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // it may have happened in no time
	}
	close(stop)
	callers.Wait()
	if text := last.Load(); text != nil {
		t.Errorf("of %d calls with good tokens %d failed, the last one with: %s", sent.Load(), failed.Load(), *text)
	}
	if sent.Load() < enough {
		t.Errorf("only %d calls were made", sent.Load())
	}
	t.Logf("%d calls with good tokens, %d failed", sent.Load(), failed.Load())
}

// synced waits until the gateway has the newest configuration of the control plane.
func (s *shop) synced(t *testing.T) {
	t.Helper()
	gatewayenv.Eventually(t, "the gateway is in sync", func() error {
		text, err := serving.Page("http://" + s.Pages + "/debug/syncz")
		if err != nil {
			return err
		}
		if !strings.Contains(text, "gateway") || strings.Contains(text, "STALE") || strings.Contains(text, "NOT_SENT") {
			return errors.New(text)
		}
		return nil
	})
}

// counters reads counters of Envoy, by names.
func (s *shop) counters(t *testing.T, names ...string) map[string]int {
	t.Helper()
	r, err := http.Get("http://" + s.Admin + "/stats?format=json&filter=" + strings.Join(names, "|"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var page struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	list := map[string]int{}
	for _, st := range page.Stats {
		list[st.Name] = st.Value
	}
	return list
}

// TestKeysOverTime checks calls while keys are missing, are published, rotate, and cannot be
// fetched any more.
func TestKeysOverTime(t *testing.T) {
	longtest.Test(t)
	s := openShop(t)
	a := newIssuer(t, "a.example.com", "one")
	good := a.token(nil)
	other, third := newPublisher(t), newPublisher(t)
	if !t.Run("keys that were never there", func(t *testing.T) {
		s.eventually(t, "/", "200 all")
		s.eventually(t, "/", "401 Jwks doesn't have any valid public key", bearer(good)...)
		s.problem(t, `the server returned HTTP status 503: tokens of issuer \"a.example.com\" are refused`)
	}) {
		return
	}
	t.Run("they come", func(t *testing.T) {
		s.keys.publish(a.keys())
		s.eventually(t, "/", "200 all", bearer(good)...)
		s.eventually(t, "/", "200 all", "x-token: "+(issuer{t, s.keys.URL, a.kid, a.key}).token(nil))
		s.problem(t, "")
	})
	t.Run("routes by claims", func(t *testing.T) {
		for _, c := range []struct {
			path, want string
			claims     claims
		}{
			{"/", "200 all", nil},
			{"/", "200 admin", claims{"group": "admin"}},
			{"/", "200 admin", claims{"group": []string{"x", "admin"}}},
			{"/", "200 all", claims{"group": "administrator"}},
			{"/shop", "200 gold", claims{"realm": claims{"tier": "golden"}}},
			{"/x", "200 all", claims{"realm": claims{"tier": "golden"}}},
			{"/", "200 beta", claims{"scope": "alpha beta"}},
			{"/who", "200 all", nil},
			{"/who", "200 nobody", claims{"sub": nil}},
		} {
			if err := s.says(http.DefaultClient, c.path, c.want, bearer(a.token(c.claims))...); err != nil {
				t.Errorf("%s with %v: %v", c.path, c.claims, err)
			}
		}
		if err := s.says(http.DefaultClient, "/who", "200 nobody"); err != nil {
			t.Errorf("without a token: %v", err)
		}
	})
	t.Run("another issuer's are waited for", func(t *testing.T) {
		b := newIssuer(t, "b.example.com", "b")
		other.publish(b.keys())
		tokenA, tokenB := a.token(nil), b.token(nil)
		// Until the rule exists the second issuer is unknown, and its token is refused. The first
		// one's is valid throughout.
		s.under(t, func() string { return bearer(tokenA)[0] }, func() {
			s.Write("other.yaml", fmt.Sprintf(otherText, other.URL))
			s.eventually(t, "/", "200 all", bearer(tokenB)...)
		})
		if other.hits.Load() == 0 {
			t.Error("the keys were not fetched")
		}
		// A rule for tokens that were not checked before: valid ones do not fail at any moment.
		c := newIssuer(t, "c.example.com", "c")
		third.publish(c.keys())
		third.thinks.Store(int64(500 * time.Millisecond))
		forged := "x-third: " + newIssuer(t, c.name, c.kid).token(nil)
		genuine := "x-third: " + c.token(nil)
		s.under(t, func() string { return genuine }, func() {
			s.Write("third.yaml", fmt.Sprintf(thirdText, third.URL))
			s.eventually(t, "/", "401 Jwt verification fails", forged)
		})
	})
	t.Run("they rotate under load", func(t *testing.T) { a = s.rotate(t, a) })
	t.Run("their server is ill, then away", func(t *testing.T) {
		good = a.token(nil)
		s.under(t, func() string { return bearer(good)[0] }, func() {
			s.keys.keys.Store(nil)
			s.problem(t, "the server returned HTTP status 503: the last good keys stay in use")
			s.keys.publish(a.keys())
			s.problem(t, "")
		})
		s.under(t, func() string { return bearer(good)[0] }, func() {
			s.Restart() // keys are fetched before proxies are sent anything
			s.synced(t)
		})
		s.keys.CloseClientConnections()
		s.keys.Close()
		s.under(t, func() string { return bearer(good)[0] }, func() {
			s.problem(t, "connection failed, or the address is not allowed: the last good keys stay in use")
		})
	})
	t.Run("the control plane restarts meanwhile", func(t *testing.T) {
		gatewayenv.Eventually(t, "keys are kept", func() error {
			if text, err := os.ReadFile(s.kept); err != nil || !strings.Contains(string(text), a.kid) {
				return fmt.Errorf("%s, %w", text, err)
			}
			return nil
		})
		s.under(t, func() string { return bearer(good)[0] }, func() {
			s.Restart()
			s.synced(t)
			s.problem(t, "connection failed, or the address is not allowed: the last good keys stay in use")
		})
		if err := s.says(http.DefaultClient, "/", "401", bearer(newIssuer(t, a.name, a.kid).token(nil))...); err != nil {
			t.Error(err)
		}
	})
}

const otherText = `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: other, namespace: istio-system}
spec: {jwtRules: [{issuer: b.example.com, jwksUri: "%s/keys"}]}
`

const thirdText = `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: third, namespace: istio-system}
spec: {jwtRules: [{issuer: c.example.com, jwksUri: "%s/keys", fromHeaders: [{name: x-third}]}]}
`

// rotate lets the issuer sign with new keys, each published before its first use and removed after
// its last.
func (s *shop) rotate(t *testing.T, a issuer) issuer {
	t.Helper()
	var current atomic.Pointer[string]
	sign := func(i issuer) {
		token := i.token(nil)
		current.Store(&token)
	}
	sign(a)
	listeners := s.counters(t, "listener_manager.listener_modified", "listener_manager.listener_in_place_updated", "listener_manager.listener_added")
	s.under(t, func() string { return bearer(*current.Load())[0] }, func() {
		for n := range 5 {
			next := newIssuer(t, a.name, fmt.Sprintf("key-%d", n))
			s.keys.publish(a.keys(next))
			s.eventually(t, "/", "200 all", bearer(next.token(nil))...)
			sign(next)
			s.keys.publish(next.keys())
			s.eventually(t, "/", "401", bearer(a.token(nil))...)
			a = next
		}
	})
	for name, n := range s.counters(t, "listener_manager.listener_modified", "listener_manager.listener_in_place_updated", "listener_manager.listener_added") {
		if n != listeners[name] {
			t.Errorf("%s changed from %d to %d: connections were closed", name, listeners[name], n)
		}
	}
	return a
}

const fetchedByProxiesText = `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: fetched, namespace: istio-system}
spec: {jwtRules: [{issuer: a.example.com, jwksUri: "http://keys.example.com:8000/keys"}, {issuer: b.example.com, jwksUri: "%s/keys", fromHeaders: [{name: x-token}]}]}
`

const keysAsServiceText = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: keys, namespace: istio-system}
spec: {hosts: [keys.example.com], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 8000, protocol: HTTP, targetPort: %[1]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: %[2]d, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: istio-system}
spec: {hosts: ["*"], gateways: [public], http: [{directResponse: {status: 200, body: {string: all}}}]}
`

// TestKeysThatProxiesFetch: of a host that is a service Envoy fetches the keys itself, of another one the control plane.
func TestKeysThatProxiesFetch(t *testing.T) {
	mine, others := newPublisher(t), newPublisher(t)
	a, b := newIssuer(t, "a.example.com", "a"), newIssuer(t, "b.example.com", "b")
	mine.publish(a.keys())
	others.publish(b.keys())
	s := &shop{port: serving.FreePort(t), keys: mine}
	s.Edge = gatewayenv.Start(t, gatewayenv.Options{Env: []string{"MESHPILOT_JWKS_LOOPBACK=true", "PILOT_JWT_ENABLE_REMOTE_JWKS=hybrid"}})
	s.Write("services.yaml", fmt.Sprintf(keysAsServiceText, mine.Listener.Addr().(*net.TCPAddr).Port, s.port)) //nolint:forcetypeassert // it listens on TCP
	s.eventually(t, "/", "200 all")
	s.Write("rules.yaml", fmt.Sprintf(fetchedByProxiesText, others.URL))
	s.eventually(t, "/", "401", "x-token: "+newIssuer(t, b.name, b.kid).token(nil)) // the rules are in force
	s.eventually(t, "/", "200 all", "x-token: "+b.token(nil))
	if n := mine.hits.Load(); n != 0 {
		t.Errorf("keys that Envoy is to fetch were fetched %d times before there was a token", n)
	}
	s.eventually(t, "/", "200 all", bearer(a.token(nil))...)
	if mine.hits.Load() == 0 {
		t.Error("the keys were not fetched")
	}
	if err := s.says(http.DefaultClient, "/", "401 Jwt verification fails", bearer(newIssuer(t, a.name, a.kid).token(nil))...); err != nil {
		t.Error(err)
	}
}
