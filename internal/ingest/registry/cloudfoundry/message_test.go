package cloudfoundry

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documented is the example of a registration in the documentation of Cloud Foundry's router.
const documented = `{
  "host": "127.0.0.1", "port": 4567, "tls_port": 1234,
  "uris": ["my_first_url.localhost.routing.cf-app.com", "my_second_url.localhost.routing.cf-app.com"],
  "tags": {"another_key": "another_value", "some_key": "some_value"},
  "app": "some_app_guid", "stale_threshold_in_seconds": 120, "private_instance_id": "some_app_instance_id",
  "isolation_segment": "some_iso_seg_name", "server_cert_domain_san": "some_subject_alternative_name"
}`

func TestParseMessage(t *testing.T) {
	m, err := parseMessage([]byte(documented))
	if err != nil {
		t.Fatal(err)
	}
	want := &message{
		Host: "127.0.0.1", Port: 4567, TLSPort: 1234,
		URIs: []string{"my_first_url.localhost.routing.cf-app.com", "my_second_url.localhost.routing.cf-app.com"},
		Tags: map[string]string{"another_key": "another_value", "some_key": "some_value"},
		App:  "some_app_guid", StaleThreshold: 120, PrivateInstanceID: "some_app_instance_id",
		IsolationSegment: "some_iso_seg_name", ServerCertDomainSAN: "some_subject_alternative_name",
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidMessages(t *testing.T) {
	for payload, want := range map[string]string{
		``:                                       "not valid JSON",
		`[]`:                                     "not valid JSON",
		`{"host": "10.0.0.1", "port": 1}`:        "uris: is empty",
		`{"host": "", "uris": ["a.b"]}`:          "host:",
		`{"host": "example.com", "uris": ["a"]}`: "host:",
		`{"host": "0.0.0.0", "uris": ["a"]}`:     "host:",
		`{"host": "fe80::1%eth0", "uris": ["a"]}`:                                         "host:",
		`{"host": "10.0.0.1", "port": 70000, "uris": ["a"]}`:                              "not valid JSON",
		`{"host": "10.0.0.1", "uris": ["a"], "app": "` + strings.Repeat("x", 2000) + `"}`: "longer than",
		`{"host": "10.0.0.1", "uris": ["a"` + strings.Repeat(`,"a"`, maxURIs) + `]}`:      "at most",
	} {
		if _, err := parseMessage([]byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", payload, err, want)
		}
	}
}

func TestParseRoute(t *testing.T) {
	for uri, want := range map[string]route{
		"App.Example.com":        {host: "app.example.com"},
		"app.example.com/":       {host: "app.example.com"},
		"app.example.com/A/b/":   {"app.example.com", "/a/b"},
		"app.example.com/a?x=/y": {"app.example.com", "/a"},
		"*.example.com":          {host: "*.example.com"},
	} {
		if got, err := parseRoute(uri); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", uri, got, err, want)
		}
	}
	for _, uri := range []string{"", "/a", "my_app.example.com", "*", "a..b", "10.0.0.1", "app.example.com:80", "a.*.com", "-a.com", strings.Repeat("a.", 2000) + "com"} {
		if got, err := parseRoute(uri); err == nil {
			t.Errorf("%.40q was parsed as %v", uri, got)
		}
	}
}
