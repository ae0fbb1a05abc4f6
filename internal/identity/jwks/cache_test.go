package jwks

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// shelf is an in-memory KeyCache that a test can inspect.
type shelf struct {
	mu     sync.Mutex
	text   []byte
	fails  bool
	writes int
}

var _ KeyCache = (*shelf)(nil)

func (*shelf) String() string { return "shelf" }

func (s *shelf) Load(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails {
		return nil, errors.New("no shelf")
	}
	return s.text, nil
}

func (s *shelf) Update(_ context.Context, change func([]byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.fails {
		return errors.New("no shelf")
	}
	s.text = change(s.text)
	return nil
}

func (s *shelf) set(text string, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.fails, s.writes = []byte(text), fails, 0
}

func (s *shelf) get() (string, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text), s.writes
}

// onShelf is the cached record of a source.
func onShelf(uri, keys string, at time.Time) string {
	return fmt.Sprintf(`{"uri":%q,"at":%q,"keys":%s}`, uri, at.UTC().Format(time.RFC3339), keys)
}

// TestKeysOfARunBefore: cached keys are used for a day while their source cannot be reached, and
// not once it can.
func TestKeysOfARunBefore(t *testing.T) {
	const a, b = "https://a/keys", "https://b/keys"
	placeA, placeB := mesh.KeySource{URI: a}, mesh.KeySource{URI: b}
	for name, tt := range map[string]struct {
		age   time.Duration
		serve string
		want  mesh.KeySet
	}{
		"away":           {time.Hour, "", mesh.KeySet{Source: placeA, Text: one, Fault: refused}},
		"slow":           {time.Hour, "slow", mesh.KeySet{Source: placeA, Text: one, Fault: "the first fetch of the keys has not finished"}},
		"ill":            {time.Hour, "status 503", mesh.KeySet{Source: placeA, Text: one, Fault: "the server returned HTTP status 503"}},
		"rotated":        {time.Hour, two, mesh.KeySet{Source: placeA, Text: two}},
		"too old":        {25 * time.Hour, "", mesh.KeySet{Source: placeA, Fault: refused}},
		"of the future":  {-time.Hour, "", mesh.KeySet{Source: placeA, Fault: refused}},
		"a clock behind": {-time.Minute, "", mesh.KeySet{Source: placeA, Text: one, Fault: refused}},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(shelf)
			inWorldWith(
				t,
				s,
				func() { s.set("["+onShelf(a, one, time.Now().Add(-tt.age))+"]", false) },
				func(t *testing.T, w *world) {
					if tt.serve != "" {
						w.server.set(a, tt.serve)
					}
					w.SetWanted(map[mesh.KeySource]time.Duration{placeA: 20 * time.Second, placeB: 0})
					time.Sleep(pendingReportDelay + time.Second)
					w.after(t, 0, placeA, tt.want.Text, tt.want.Fault)
					w.after(t, 0, placeB, "", refused)
				},
			)
		})
	}
}

// TestKeysAreKept: fetched keys are cached soon and updated, and a failing cache removes no keys.
func TestKeysAreKept(t *testing.T) {
	const a = "https://a/keys"
	place := mesh.KeySource{URI: a}
	s := new(shelf)
	inWorldWith(t, s, func() {}, func(t *testing.T, w *world) {
		kept := func(want string) {
			t.Helper()
			text, _ := s.get()
			all, err := parseCache([]byte(text), time.Now())
			if err != nil || all[place].Text != want {
				t.Errorf("%s, %v; want %s", text, err, want)
			}
		}
		w.server.set(a, one)
		w.SetWanted(map[mesh.KeySource]time.Duration{place: 0})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		kept(one)
		if _, n := s.get(); n != 1 {
			t.Errorf("%d writes", n)
		}
		time.Sleep(50 * time.Minute)
		if _, n := s.get(); n != 1 {
			t.Errorf("%d writes for the same keys", n)
		}
		time.Sleep(26 * time.Hour) // they are still the same, and so are not too old
		kept(one)
		s.set("[", true)
		w.server.set(a, two)
		time.Sleep(21 * time.Minute)
		synctest.Wait()
		w.after(t, 0, place, two, "")
		s.set("[", false) // nonsense is replaced
		time.Sleep(20 * time.Second)
		synctest.Wait()
		kept(two)
	})
}

// TestUnavailableCacheIsRead: a cache that failed is read again later, for sources not yet wanted.
func TestUnavailableCacheIsRead(t *testing.T) {
	first, second := mesh.KeySource{URI: "https://a/keys"}, mesh.KeySource{URI: "https://b/keys"}
	s := new(shelf)
	inWorldWith(t, s, func() { s.set("", true) }, func(t *testing.T, w *world) {
		w.SetWanted(want(first))
		w.after(t, time.Second, first, "", refused)
		s.set("["+onShelf(second.URI, one, time.Now().Add(-time.Hour))+"]", false)
		w.SetWanted(want(first, second))
		w.after(t, time.Second, second, one, refused)
	})
}

// TestCacheIsValidated: only keys that an issuer might publish are accepted from a cache, for their
// own source; large or malformed data is rejected.
func TestCacheIsValidated(t *testing.T) {
	now := time.Now()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private, KeyID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "null": "null", "no JSON": "{", "an object": "{}", "numbers": "[1]", "nulls": "[null,null]", "no place": `[{"at":"2026-01-01T00:00:00Z","keys":` + one + `}]`,
		"both places": fmt.Sprintf(`[{"uri":"https://a","issuer":"https://a","at":%q,"keys":%s}]`, now.Format(time.RFC3339), one),
		"no time":     `[{"uri":"https://a","keys":` + one + `}]`, "no keys": "[" + onShelf("https://a", "null", now) + "]",
		"a private key": "[" + onShelf("https://a", string(whole), now) + "]",
		"a shared key":  "[" + onShelf("https://a", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, now) + "]",
		"101 keys":      "[" + onShelf("https://a", `{"keys":[`+strings.Repeat(`{"kty":"OKP"},`, 100)+`{}]}`, now) + "]",
		"a megabyte":    "[" + strings.Repeat(" ", 1<<20) + "]", "deep": strings.Repeat("[", 100_000),
	} {
		all, err := parseCache([]byte(text), now)
		if len(all) > 0 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		if got := mergeCache(
			[]byte(text),
			map[mesh.KeySource]cachedKeys{{URI: "https://b"}: {one, now}},
			now,
		); string(got) != "["+onShelf(
			"https://b",
			one,
			now,
		)+"]" {
			t.Errorf("%s becomes %.300s", name, got)
		}
	}
	// Newer ones of other replicas stay; beyond the bound the oldest go.
	at := now.Add(-time.Minute)
	old := []byte("[" + onShelf("https://a", one, now) + "]")
	if got := mergeCache(
		old,
		map[mesh.KeySource]cachedKeys{{URI: "https://a"}: {two, at}},
		now,
	); string(got) != string(
		old,
	) {
		t.Errorf("older keys replace newer ones: %s", got)
	}
	many := map[mesh.KeySource]cachedKeys{}
	for i := range 5000 {
		many[mesh.KeySource{URI: fmt.Sprintf("https://host/%d", i)}] = cachedKeys{
			one,
			now.Add(-time.Duration(i) * time.Second),
		}
	}
	text := mergeCache(nil, many, now)
	all, err := parseCache(text, now)
	if err != nil || len(all) < 1000 || len(all) == len(many) ||
		all[mesh.KeySource{URI: "https://host/0"}].Text == "" ||
		all[mesh.KeySource{URI: "https://host/4999"}].Text != "" {
		t.Errorf("%d of %d are kept in %d bytes, %v", len(all), len(many), len(text), err)
	}
}

// TestFile: the cache has mode 0600 and is replaced atomically; read errors are returned.
func TestFile(t *testing.T) {
	f := FileCache{filepath.Join(t.TempDir(), "keys.json")}
	if text, err := f.Load(t.Context()); text != nil || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if err := f.Update(t.Context(), func(old []byte) []byte { return append(old, "[]"...) }); err != nil {
		t.Fatal(err)
	}
	if text, err := f.Load(t.Context()); string(text) != "[]" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	state, err := os.Stat(f.Path)
	if err != nil || state.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", state.Mode(), err)
	}
	if err := (FileCache{filepath.Join(f.Path, "x")}).Update(
		t.Context(),
		func([]byte) []byte { return nil },
	); err == nil {
		t.Error("no error although the directory does not exist")
	}
	if list, err := os.ReadDir(filepath.Dir(f.Path)); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// FuzzMemory parses any data, and checks that merged data parses again.
func FuzzMemory(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	f.Add([]byte("[" + onShelf("https://a", one, now) + "]"))
	f.Add([]byte(`[{"issuer":"x","at":"2027-01-15T08:00:00Z","keys":{"keys":[{"kty":"oct","k":"AA"}]}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseCache(text, now)
		if err != nil {
			return
		}
		again, err := parseCache(mergeCache(text, nil, now), now)
		if err != nil || len(again) != len(all) {
			t.Errorf("%q: %d places, then %d, %v", text, len(all), len(again), err)
		}
		for place, k := range all {
			if strings.Contains(k.Text, `"d":`) || strings.Contains(k.Text, `"oct"`) || again[place].Text != k.Text {
				t.Errorf("%v has %s, then %s", place, k.Text, again[place].Text)
			}
		}
	})
}

// TestKeysAreKeptAtShutdown ends a cacheWriter within its writeDelay.
func TestKeysAreKeptAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place, s := mesh.KeySource{URI: "https://a/keys"}, new(shelf)
		k := newCacheWriter(s, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.run(ctx) }()
		k.recordFetched(place, one, time.Now())
		synctest.Wait()
		stop()
		<-done
		text, _ := s.get()
		if all, err := parseCache([]byte(text), time.Now()); err != nil || all[place].Text != one {
			t.Errorf("kept are %s, %v; want %s", text, err, one)
		}
	})
}
