package rebinding

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/agent/wasm"
	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var attempts = flag.Int("attempts", scorecard.BySize(longtest.Rounds(200, 1_000), 5_000, 100_000), "how many fetches of each kind are tried")

// places returns addresses of documents with names that were not resolved before: directly, and
// through redirects.
func places(i int) string {
	kinds := []string{"flip", "both", "bad", "cname", "late"}
	host := fmt.Sprintf("%s-%d.test", kinds[i%len(kinds)], i)
	if i/len(kinds)%2 == 1 {
		return fmt.Sprintf("http://good-%d.test:%d/redirect/%s", i, port, host)
	}
	return fmt.Sprintf("http://%s:%d/keys", host, port)
}

// hammer runs fetches, many at once, each twice: a name that flips is forbidden the second time.
func hammer(n int, fetch func(url string)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				url := places(int(i))
				fetch(url)
				fetch(url)
			}
		})
	}
	wg.Wait()
}

// TestNamesThatChangeReachNothing fetches from names whose addresses change, with the clients that the control plane uses for keys
// and bundles, and with the agent's for Wasm modules. Listeners on the forbidden addresses count no connection.
func TestNamesThatChangeReachNothing(t *testing.T) {
	n := *attempts
	check := scorecard.Check(t, 38, scorecard.Size("fetches of each client", 2*n))
	w := newWorld(t)
	serving.Eventually(t, 20*time.Second, "a client that checks nothing reaches the forbidden addresses", func() error { return dialDirectly(t) })
	serving.Eventually(t, 10*time.Second, "the listeners count its connections", func() error {
		if got, want := len(w.forbiddenConnections()), len(forbidden())+1; got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond) // for what attempts that failed half-way have left
	w.forget()
	loopback := w.reachedAt(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"))
	for name, o := range map[string]fetch.Options{"keys": {Timeout: 5 * time.Second}, "bundles": {Timeout: 5 * time.Second, Loopback: true}} {
		before, good := w.dns.answered(), w.reachedAt(allowed4, allowed6)
		c := fetch.NewClient(o)
		hammer(n, func(url string) { get(t.Context(), c, url) })
		c.CloseIdleConnections()
		w.report(t, check, name, before, good)
	}
	before, good := w.dns.answered(), w.reachedAt(allowed4, allowed6)
	cache := wasm.NewCache(wasm.Options{Dir: t.TempDir(), Timeout: 5 * time.Second, Dialer: new(net.Dialer), Log: slog.New(slog.DiscardHandler), Metrics: wasm.NewMetrics(prometheus.NewRegistry())})
	hammer(n, func(url string) {
		_, _ = cache.FilePath(t.Context(), wasm.Module{URL: url}) // the module does not exist
	})
	w.report(t, check, "modules", before, good)
	if got := w.reachedAt(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")); got != loopback {
		t.Errorf("%d connections to loopback", got-loopback)
	}
}

// dialDirectly shows that the forbidden addresses can be reached by a client that checks nothing.
func dialDirectly(t *testing.T) error {
	t.Helper()
	for _, a := range forbidden() {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(a, port).String(), 5*time.Second)
		if err != nil {
			return err
		}
		c.Close()
	}
	c, err := net.DialTimeout("tcp", fmt.Sprintf("bad-0.test:%d", port), 5*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

// report declares the counts, and fails if the names did not change or nothing allowed was reached.
func (w *world) report(t *testing.T, check scorecard.Record, name string, before, good int) {
	t.Helper()
	answers, reached, connected := w.dns.answered()-before, w.reachedAt(allowed4, allowed6)-good, w.forbiddenConnections()
	check.Measured(name+": forbidden addresses in DNS answers", answers)
	check.Measured(name+": connections to allowed addresses", reached)
	check.Measured(name+": forbidden connections", len(connected))
	if len(connected) > 0 {
		t.Errorf("%s: %d forbidden connections, to %.300q", name, len(connected), connected)
	}
	if answers == 0 || reached == 0 {
		t.Errorf("%s: %d forbidden answers and %d allowed connections: the test is not effective", name, answers, reached)
	}
	w.forget()
}

func get(ctx context.Context, c *http.Client, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	answer, err := c.Do(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

// TestControlPlaneReachesNothing runs a control plane whose rules, settings and token issuer name such addresses: keys by jwksUri and
// by OIDC discovery, trust bundles, and the issuer of callers' tokens.
func TestControlPlaneReachesNothing(t *testing.T) {
	n := min(*attempts, 300)
	check := scorecard.Check(t, 38, scorecard.Size("places of a control plane", n))
	w := newWorld(t)
	dir := t.TempDir()
	var rules strings.Builder
	for i := range n {
		place := fmt.Sprintf("jwksUri: %q", places(i))
		issuer := fmt.Sprintf("issuer-%d", i)
		if i%3 == 0 {
			place, issuer = "", fmt.Sprintf("http://good-%d.test:%d", i, port) // its document names keys elsewhere
		}
		fmt.Fprintf(&rules, "---\nkind: RequestAuthentication\napiVersion: security.istio.io/v1\nmetadata: {name: r%d, namespace: shop}\nspec: {jwtRules: [{issuer: %q, %s}]}\n", i, issuer, place)
	}
	meshFile := filepath.Join(dir, "mesh")
	bundles := "caCertificates: ["
	for i := range 10 {
		bundles += fmt.Sprintf("{spiffeBundleUrl: 'https://flip-%d.test:%d/'}, {spiffeBundleUrl: 'https://bad-%d.test:%d/'}, ", 9000+i, port, 9000+i, port)
	}
	config := filepath.Join(dir, "config")
	if err := os.Mkdir(config, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(config, "rules.yaml"), rules.String())
	write(t, meshFile, strings.TrimSuffix(bundles, ", ")+"]\n")
	o := controlplane.Options(t)
	o.ConfigDir, o.MeshConfigFile, o.SecureGRPCAddr, o.Authority.Dir = config, meshFile, serving.FreeAddress(t), filepath.Join(dir, "ca")
	o.Authority.OIDC = &authenticate.OIDCRule{Issuer: fmt.Sprintf("http://good-oidc.test:%d", port), Audiences: []string{"istio-ca"}}
	o.Registries = nil
	p := controlplane.Start(t, o)
	p.Eventually("each place has been looked up, by A and AAAA", func() error {
		if got := w.lookups(); got < 2*n {
			return fmt.Errorf("%d of %d lookups", got, 2*n)
		}
		return nil
	})
	w.report(t, check, "control plane", 0, 0)
}

// lookups returns how many questions the resolver had.
func (w *world) lookups() (n int) {
	w.dns.mu.Lock()
	defer w.dns.mu.Unlock()
	for _, k := range w.dns.asked {
		n += k
	}
	return n
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
