package trustbundle

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// newFeed returns a Feed that is not run.
func newFeed(t *testing.T, o Options) *Feed {
	t.Helper()
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// outcome is what a batch of the Feed contains.
type outcome struct {
	bundles  map[string]string // nil if the batch has no Settings
	problems map[string][]config.Problem
	synced   bool
}

func read(t *testing.T, f *Feed, batch mesh.Batch) outcome {
	t.Helper()
	out := outcome{problems: map[string][]config.Problem{}}
	for _, e := range batch {
		if e.Source != f.Name() {
			t.Errorf("an event of the source %q", e.Source)
		}
		switch {
		case e.KeySet != nil:
			t.Errorf("the key set of %s is passed on", e.KeySet.Source)
		case e.Settings != nil:
			out.bundles = e.Settings.Bundles
		case e.Problems != nil:
			out.problems[e.Problems.Scope] = e.Problems.List
		case e.Op == mesh.Synced:
			out.synced = true
		}
	}
	return out
}

// TestSettings follows one feed through fetches, failures and the end of an address.
func TestSettings(t *testing.T) {
	f := newFeed(t, Options{})
	const a, b = "https://a.example/bundle", "https://b.example/bundle"
	fetched := func(address, text, fault string) mesh.Event {
		return mesh.Event{Source: f.Name(), KeySet: &mesh.KeySet{Source: mesh.KeySource{URI: address}, Text: text, Fault: fault}}
	}
	deleted := func(address string) mesh.Event {
		e := fetched(address, "", "")
		e.Op = mesh.Delete
		return e
	}
	var earlier map[string]string
	for _, step := range []struct {
		about   string
		batch   mesh.Batch
		bundles map[string]string // nil: no new Settings
		problem string            // of the last address; "": its Problems are resolved
	}{
		{"a failed first fetch", mesh.Batch{fetched(a, "", "status 503")}, map[string]string{a: ""}, "its certificates are not trusted: status 503"},
		{"its first bundle", mesh.Batch{fetched(a, "A1", "")}, map[string]string{a: "A1"}, ""},
		{"another address", mesh.Batch{fetched(b, "B1", "")}, map[string]string{a: "A1", b: "B1"}, ""},
		{"a failed refresh", mesh.Batch{fetched(a, "A1", "refused")}, nil, "the last version stays in use: refused"},
		{"a refresh without a change", mesh.Batch{fetched(a, "A1", "")}, nil, ""},
		{"two changes at once", mesh.Batch{fetched(a, "A2", ""), fetched(b, "B2", "")}, map[string]string{a: "A2", b: "B2"}, ""},
		{"an address that is not configured any more", mesh.Batch{deleted(a)}, map[string]string{b: "B2"}, ""},
	} {
		before := maps.Clone(earlier)
		got := read(t, f, f.settings(step.batch))
		if (got.bundles == nil) != (step.bundles == nil) || !maps.Equal(got.bundles, step.bundles) {
			t.Errorf("%s: trusted are %v, want %v", step.about, got.bundles, step.bundles)
		}
		list, some := got.problems[step.batch[len(step.batch)-1].KeySet.Source.URI]
		if !some || len(list) > 1 || (len(list) == 1) != (step.problem != "") {
			t.Errorf("%s: Problems are %v, want %q", step.about, list, step.problem)
		} else if len(list) == 1 && !strings.HasSuffix(list[0].Reason, step.problem) {
			t.Errorf("%s: the Problem is %q, want %q", step.about, list[0].Reason, step.problem)
		}
		if !maps.Equal(before, earlier) {
			t.Errorf("%s: earlier Settings were modified", step.about)
		}
		if got.bundles != nil {
			earlier = got.bundles
		}
	}
	if got := read(t, f, f.settings(mesh.Batch{{Op: mesh.Synced, Source: f.Name()}})); !got.synced || got.bundles != nil {
		t.Errorf("other events are not passed on alone: %+v", got)
	}
}

// TestRun fetches from a real server: its certificate must be trusted and its network not blocked.
func TestRun(t *testing.T) {
	authority := pki.Authority("partner")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys": [{"use": "x509-svid", "x5c": [%q]}]}`, base64.StdEncoding.EncodeToString(authority.Certificate.Raw))
	}))
	defer server.Close()
	trusted := filepath.Join(t.TempDir(), "roots.pem")
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusted, root, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		about, want, problem string
		options              Options
	}{
		{"trusted", string(authority.CertificatePEM()), "", Options{RootsFile: trusted}},
		{"unknown issuer", "", "certificate is not trusted", Options{}},
		{
			"a blocked network", "", "its certificates are not trusted",
			Options{RootsFile: trusted, Blocked: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		},
	} {
		t.Run(test.about, func(t *testing.T) {
			got := firstFetch(t, newFeed(t, test.options), server.URL)
			if got.bundles[server.URL] != test.want {
				t.Errorf("trusted is %q, want %q", got.bundles[server.URL], test.want)
			}
			list := got.problems[server.URL]
			if test.problem == "" && len(list) > 0 || test.problem != "" && (len(list) != 1 || !strings.Contains(list[0].Reason, test.problem)) {
				t.Errorf("Problems are %v, want %q", list, test.problem)
			}
		})
	}
}

// firstFetch runs a feed until it has reported an address.
func firstFetch(t *testing.T, f *Feed, address string) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := make(chan mesh.Batch), make(chan error, 1)
	go func() { ended <- f.Run(ctx, out) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	f.SetAddresses([]string{address})
	limit := time.After(30 * time.Second)
	for {
		select {
		case batch := <-out:
			if got := read(t, f, batch); got.bundles != nil {
				return got
			}
		case <-limit:
			t.Fatal("nothing is reported")
		}
	}
}

func TestInvalidRootsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{RootsFile: file}); err == nil {
		t.Error("a file without a certificate is accepted")
	}
	if _, err := New(Options{RootsFile: file + ".missing"}); err != nil {
		t.Errorf("a missing file: %v", err)
	}
}
