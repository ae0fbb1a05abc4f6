package consul

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// recordQuery runs a Source until it sends its first query, and returns that with the namespace of
// the objects.
func recordQuery(t *testing.T, edit func(*Settings)) (query *http.Request, namespace string) {
	t.Helper()
	queries := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case queries <- r:
		default:
		}
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	settings := DefaultSettings()
	settings.URL = server.URL
	if edit != nil {
		edit(&settings)
	}
	source, err := New(Options{Settings: settings, Metrics: &obs.NewMetrics().Consul})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan mesh.Batch, 1000), make(chan error, 1)
	go func() { done <- source.Run(ctx, out) }()
	defer func() { cancel(); <-done }()
	select {
	case query = <-queries:
		return query, source.options.Namespace
	case <-time.After(30 * time.Second):
		t.Fatal("no query arrived")
		return nil, ""
	}
}

// silent is a transport to a server that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestUnansweredQueryIsCounted: a query that is not answered in time is a failure, one whose session
// ends is not.
func TestUnansweredQueryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := api.NewClient(&api.Config{Address: "consul", HttpClient: &http.Client{Transport: silent{}}})
		if err != nil {
			t.Fatal(err)
		}
		metrics := &obs.NewMetrics().Consul
		w := watcher{run: &run{Source: &Source{client: client}, metrics: metrics}}
		session, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, query := range []struct {
			session context.Context
			want    float64
		}{{session, 0}, {t.Context(), 1}} {
			if err := w.call(query.session, &result{name: "web"}, 1, maxWait); err == nil {
				t.Error("an unanswered query succeeded")
			}
			if n := testutil.ToFloat64(metrics.Failures.WithLabelValues(string(failedUnreachable))); n != query.want {
				t.Errorf("%v failures are counted, want %v", n, query.want)
			}
		}
	})
}

// TestQueryParameters checks that the settings are sent with queries. Consul's community edition
// ignores namespaces and refuses partitions, so real servers cannot show it.
func TestQueryParameters(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	query, namespace := recordQuery(t, func(s *Settings) {
		s.Datacenter, s.Namespace, s.Partition, s.TokenFile = "dc7", "team", "west", token
	})
	got := []string{namespace, query.Header.Get("X-Consul-Token")}
	for _, name := range []string{"dc", "ns", "partition"} {
		got = append(got, query.URL.Query().Get(name))
	}
	if diff := cmp.Diff([]string{"team", "secret", "dc7", "team", "west"}, got); diff != "" {
		t.Errorf("namespace, token, datacenter, namespace, partition (-want +got):\n%s", diff)
	}
}

// TestEnvironment tests that only the variables of the client library in docs/ENVIRONMENT.md have
// an effect, and only without flags.
func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("in-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, _ := recordQuery(t, nil)
	effects := map[string]string{} // variable to the difference that it makes
	for name, value := range map[string]string{
		api.HTTPAddrEnvName: "192.0.2.1:1", api.HTTPTokenEnvName: "secret", api.HTTPTokenFileEnvName: file,
		api.HTTPAuthEnvName: "user:password", api.HTTPSSLEnvName: "true", api.HTTPSSLVerifyEnvName: "false",
		api.HTTPCAFile: "/none", api.HTTPCAPath: "/none", api.HTTPClientCert: "/none", api.HTTPClientKey: "/none",
		api.HTTPTLSServerName: "none", api.HTTPNamespaceEnvName: "team", api.HTTPPartitionEnvName: "west",
	} {
		func() {
			t.Setenv(name, value)
			defer os.Unsetenv(name)
			query, namespace := recordQuery(t, nil)
			for _, x := range [][2]string{
				{query.Header.Get("X-Consul-Token"), plain.Header.Get("X-Consul-Token")},
				{query.Header.Get("Authorization"), plain.Header.Get("Authorization")},
				{query.URL.Query().Get("ns"), plain.URL.Query().Get("ns")},
				{query.URL.Query().Get("partition"), plain.URL.Query().Get("partition")},
			} {
				if x[0] != x[1] {
					effects[name] = x[0]
				}
			}
			if ns := query.URL.Query().Get("ns"); ns != namespace {
				t.Errorf("%s: objects of the namespace %q are in %q", name, ns, namespace)
			}
		}()
	}
	want := map[string]string{
		api.HTTPTokenEnvName: "secret", api.HTTPTokenFileEnvName: "in-a-file",
		api.HTTPNamespaceEnvName: "team", api.HTTPPartitionEnvName: "west",
	}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Errorf("variables with an effect (-want +got):\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Setenv(name, "variable")
	}
	t.Setenv(api.HTTPTokenFileEnvName, file)
	query, _ := recordQuery(t, func(s *Settings) { s.Namespace, s.Partition, s.TokenFile = "flag", "flag", writeToken(t, "flag") })
	for what, got := range map[string]string{
		"token": query.Header.Get("X-Consul-Token"), "namespace": query.URL.Query().Get("ns"), "partition": query.URL.Query().Get("partition"),
	} {
		if got != "flag" {
			t.Errorf("%s %q, want that of the flag", what, got)
		}
	}
}

func writeToken(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSettingsValidate(t *testing.T) {
	for _, test := range []struct {
		edit func(*Settings)
		want string // "" if valid
	}{
		{func(s *Settings) {}, ""},
		{func(s *Settings) { s.URL = "127.0.0.1:8500" }, ""},
		{func(s *Settings) { s.URL = "https://consul.example.com/prefix" }, ""},
		{func(s *Settings) { s.URL = "" }, "--consulserverURL"},
		{func(s *Settings) { s.URL = "ftp://a" }, "--consulserverURL"},
		{func(s *Settings) { s.URL = "http://user:secret@a" }, "--consulserverURL"},
		{func(s *Settings) { s.Interval = 0 }, "--consulserverInterval"},
		{func(s *Settings) { s.Queries = 0 }, "--consulQueries"},
		{func(s *Settings) { s.Domain = "Consul" }, "--consulDomain"},
		{func(s *Settings) { s.OtherDatacenters = []string{"west", "south"} }, ""},
		{func(s *Settings) { s.OtherDatacenters = []string{"west", "west"} }, "--consulOtherDatacenters"},
		{func(s *Settings) { s.OtherDatacenters = []string{"a.b"} }, "--consulOtherDatacenters"},
		{func(s *Settings) { s.Datacenter, s.OtherDatacenters = "west", []string{"west"} }, "--consulOtherDatacenters"},
		{func(s *Settings) { s.OtherDatacenters, s.Peers = []string{"west"}, []string{"north"} }, ""},
		{func(s *Settings) { s.OtherDatacenters, s.Peers = []string{"west"}, []string{"west"} }, "--consulPeers"},
		{func(s *Settings) { s.Peers = []string{"a", "a"} }, "--consulPeers"},
		{func(s *Settings) { s.Peers = []string{"A"} }, "--consulPeers"},
		{func(s *Settings) { s.CertFile = "cert.pem" }, "--consulKeyFile"},
	} {
		s := DefaultSettings()
		s.URL = "http://127.0.0.1:8500"
		test.edit(&s)
		err := s.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", s, err, test.want)
		}
	}
}

// TestErrorTextOfBody: the text of an error status is valid UTF-8, also if the limit cuts a
// character or the body has other bytes.
func TestErrorTextOfBody(t *testing.T) {
	for body, want := range map[string]string{
		" No cluster leader\n":            "No cluster leader",
		"a\xffb":                          "a?b",
		strings.Repeat("x", 199) + "ü":    strings.Repeat("x", 199) + "?",
		strings.Repeat("x", 198) + "üx":   strings.Repeat("x", 198) + "ü",
		strings.Repeat("\xff", 300) + "x": "?",
	} {
		got := errorText(fmt.Errorf("list: %w", api.StatusError{Code: 500, Body: body}))
		if got != "status 500: "+want {
			t.Errorf("%q: %q", body, got)
		}
	}
}
