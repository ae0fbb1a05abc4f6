package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server responds by URL; others cannot be reached.
type server struct {
	mu    sync.Mutex
	pages map[string]string
	asked []string
	began time.Time
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	url := r.URL.String()
	s.asked = append(s.asked, fmt.Sprintf("%v %s", time.Since(s.began), url))
	body, ok := s.pages[url]
	switch {
	case !ok:
		return nil, errors.New("dial tcp 10.1.2.3:443: connection refused")
	case body == "slow":
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return nil, r.Context().Err()
	case strings.HasPrefix(body, "status "):
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable,
			Body:       io.NopCloser(strings.NewReader("s3cr3t")),
		}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (s *server) set(url, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if page == "" {
		delete(s.pages, url)
		return
	}
	s.pages[url] = page
}

// requests returns the times of requests since the last call.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.asked
	s.asked = nil
	return list
}

const (
	one = `{"keys":[{"crv":"Ed25519","kid":"one","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	two = `{"keys":[{"crv":"Ed25519","kid":"two","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
)

// world is a running Source on a fake clock, and the last key set of each source.
type world struct {
	*Source
	*server
	mu     sync.Mutex
	said   map[mesh.KeySource]mesh.KeySet
	events int
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorldWith(t, nil, func() {}, test)
}

// inWorldWith has a KeyCache too, filled on the test's clock.
func inWorldWith(t *testing.T, m KeyCache, before func(), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before()
		w := &world{
			server: &server{pages: map[string]string{}, began: time.Now()},
			said:   map[mesh.KeySource]mesh.KeySet{},
		}
		w.Source = New(
			Options{Client: &http.Client{Transport: w.server}, Random: func() float64 { return 0 }, Cache: m},
		)
		ctx, cancel := context.WithCancel(t.Context())
		out, done := make(chan mesh.Batch), make(chan error)
		go func() { done <- w.Run(ctx, out) }()
		go func() {
			for {
				select {
				case b := <-out:
					w.recordBatch(b)
				case <-ctx.Done():
					return
				}
			}
		}()
		synctest.Wait()
		test(t, w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) recordBatch(b mesh.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range b {
		if e.KeySet == nil {
			continue
		}
		w.events++
		if e.Op == mesh.Delete {
			delete(w.said, e.KeySet.Source)
		} else {
			w.said[e.KeySet.Source] = *e.KeySet
		}
	}
}

// after advances the clock and compares the source's key set.
func (w *world) after(t *testing.T, d time.Duration, place mesh.KeySource, text, fault string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(mesh.KeySet{Source: place, Text: text, Fault: fault}, w.said[place]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func want(places ...mesh.KeySource) map[mesh.KeySource]time.Duration {
	list := map[mesh.KeySource]time.Duration{}
	for _, p := range places {
		list[p] = 0
	}
	return list
}

const refused = "connection failed, or the address is not allowed"

func TestKeysAreFollowed(t *testing.T) {
	a := mesh.KeySource{URI: "https://a/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(a.URI, one)
		w.SetWanted(want(a))
		w.after(t, 0, a, one, "")
		w.set(a.URI, two)
		w.after(t, defaultRefresh-time.Second, a, one, "")
		w.after(t, time.Second, a, two, "")
		// The same keys with another text are no news.
		w.mu.Lock()
		events := w.events
		w.mu.Unlock()
		w.set(a.URI, strings.Replace(two, "{", `{"note": "later", `, 1))
		w.after(t, defaultRefresh, a, two, "")
		if w.events != events {
			t.Errorf("%d events more", w.events-events)
		}
		if n := len(w.requests()); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

// TestLastGoodKeysStay: keys stay while their source is unavailable, invalid or empty; retries back
// off to one minute.
func TestLastGoodKeysStay(t *testing.T) {
	a := mesh.KeySource{URI: "https://a/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(a.URI, one)
		w.SetWanted(want(a))
		w.after(t, 0, a, one, "")
		w.set(a.URI, "")
		w.after(t, defaultRefresh, a, one, refused)
		w.requests()
		start := time.Now()
		w.after(t, 5*time.Minute, a, one, refused)
		var pauses []time.Duration
		last := time.Duration(0)
		for _, r := range w.requests() {
			at, _ := time.ParseDuration(strings.Fields(r)[0])
			at -= start.Sub(w.began)
			pauses = append(pauses, at-last)
			last = at
		}
		seconds := time.Second
		if diff := cmp.Diff(
			[]time.Duration{
				1 * seconds,
				2 * seconds,
				4 * seconds,
				8 * seconds,
				16 * seconds,
				32 * seconds,
				60 * seconds,
				60 * seconds,
				60 * seconds,
			},
			pauses,
		); diff != "" {
			t.Errorf("pauses, -want +got:\n%s", diff)
		}
		for page, fault := range map[string]string{
			`{"keys":[]}`: "the key set has no key for token signatures", "<html>": "the document is not a JSON Web Key Set",
			"status 503": "the server returned HTTP status 503", "slow": "timeout: the server did not respond",
		} {
			w.set(a.URI, page)
			w.after(t, maxBackoff+defaultTimeout+seconds, a, one, fault)
		}
		w.set(a.URI, two)
		w.after(t, maxBackoff+defaultTimeout, a, two, "")
	})
}

// TestKeysThatNeverCame reports no keys.
func TestKeysThatNeverCame(t *testing.T) {
	a, b := mesh.KeySource{URI: "https://a/keys"}, mesh.KeySource{URI: "https://b/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(b.URI, "slow")
		w.SetWanted(map[mesh.KeySource]time.Duration{a: 0, b: 2 * time.Second})
		w.after(t, 0, a, "", refused)
		waited := time.Now()
		w.WaitFor(t.Context(), []mesh.KeySource{a, b})
		if took := time.Since(waited); took != 2*time.Second {
			t.Errorf("took %v, want at most the 2s that the rule allows", took)
		}
		w.after(t, 0, b, "", "timeout: the server did not respond")
		w.set(a.URI, one)
		w.after(t, time.Minute, a, one, "")
	})
}

// TestPendingIsReportedSoon: a source is reported as pending early, whatever timeout a rule allows,
// and the result follows.
func TestPendingIsReportedSoon(t *testing.T) {
	a := mesh.KeySource{URI: "https://a/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(a.URI, "slow")
		w.SetWanted(map[mesh.KeySource]time.Duration{a: 20 * time.Second})
		began := time.Now()
		w.WaitFor(t.Context(), []mesh.KeySource{a})
		if took := time.Since(began); took != pendingReportDelay {
			t.Errorf("the failure is reported after %v", took)
		}
		w.after(t, 0, a, "", "the first fetch of the keys has not finished")
		w.after(t, 14*time.Second, a, "", "timeout: the server did not respond")
	})
}

func TestDiscovery(t *testing.T) {
	a := mesh.KeySource{Issuer: "https://a/tenant/"}
	const document = "https://a/tenant/.well-known/openid-configuration"
	inWorld(t, func(t *testing.T, w *world) {
		w.set(document, `{"issuer": "https://a/tenant", "jwks_uri": "https://keys/1"}`)
		w.set("https://keys/1", one)
		w.SetWanted(want(a))
		w.after(t, 0, a, one, "")
		// The keys move: the document is read again.
		w.set("https://keys/1", "")
		w.set("https://keys/2", two)
		w.set(document, `{"jwks_uri": "https://keys/2"}`)
		w.after(t, defaultRefresh+time.Minute, a, two, "")
	})
	for text, fault := range map[string]string{
		`{"jwks_uri": "http://keys/1"}`: "the issuer's discovery document names a jwks_uri without TLS",
		`{"jwks_uri": "file:///keys"}`:  "the issuer's discovery document names no jwks_uri",
		`{}`:                            "the issuer's discovery document names no jwks_uri",
		`null`:                          "the issuer's discovery document names no jwks_uri",
		`[]`:                            "the issuer's discovery document is invalid JSON",
		`{"jwks_uri": 1}`:               "the issuer's discovery document is invalid JSON",
	} {
		inWorld(t, func(t *testing.T, w *world) {
			w.set(document, text)
			w.set("http://keys/1", one)
			w.SetWanted(want(a))
			w.after(t, time.Hour, a, "", fault)
		})
	}
	mail := mesh.KeySource{Issuer: "testing@secure.istio.io"}
	inWorld(t, func(t *testing.T, w *world) {
		w.SetWanted(want(mail))
		w.after(
			t,
			time.Hour,
			mail,
			"",
			`issuer "testing@secure.istio.io" is not a URL, so its keys cannot be discovered: set jwksUri or jwks`,
		)
		if list := w.requests(); len(list) > 0 {
			t.Errorf("asked %v", list)
		}
	})
}

// TestUnusedSourcesAreRemoved, but not at once: a rule that is replaced is deleted first.
func TestUnusedSourcesAreRemoved(t *testing.T) {
	a, b := mesh.KeySource{URI: "https://a/keys"}, mesh.KeySource{URI: "https://b/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(a.URI, one)
		w.set(b.URI, two)
		w.SetWanted(want(a, b))
		w.after(t, 0, b, two, "")
		w.SetWanted(want(a))
		w.after(t, unusedInterval-time.Second, b, two, "")
		w.SetWanted(want(a, b))
		w.after(t, 3*unusedInterval, b, two, "")
		if n := len(w.requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		w.SetWanted(want(a))
		time.Sleep(3 * unusedInterval)
		synctest.Wait()
		if known := w.KeySets(); len(known) != 1 || known[a] == nil {
			t.Errorf("known: %v", known)
		}
		time.Sleep(24 * time.Hour)
		for _, r := range w.requests() {
			if strings.Contains(r, b.URI) {
				t.Fatalf("still asked: %s", r)
			}
		}
	})
}

// TestSourcesAreBounded: rules beyond the bound get no keys and take none from others.
func TestSourcesAreBounded(t *testing.T) {
	first, late := mesh.KeySource{URI: "https://z/keys"}, mesh.KeySource{URI: "https://late/keys"}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(first.URI, one)
		w.set(late.URI, two)
		w.SetWanted(want(first))
		w.after(t, 0, first, one, "")
		many := want(first)
		for i := range maxSources + 10 {
			many[mesh.KeySource{URI: fmt.Sprintf("https://many/%d", i)}] = 0
		}
		many[late] = 0
		w.SetWanted(many)
		w.after(t, time.Second, first, one, "")
		if n := len(w.KeySets()); n != len(many) {
			t.Errorf("%[2]d of %[1]d addresses are reported", len(many), n)
		}
		full := 0
		for k := range maps.Values(w.KeySets()) {
			if strings.Contains(k.Fault, "too many key sources") {
				full++
			}
		}
		if full != len(many)-maxSources {
			t.Errorf("%d places are turned away, want %d", full, len(many)-maxSources)
		}
		w.SetWanted(want(first, late))
		w.after(t, 3*unusedInterval, late, two, "")
	})
}
