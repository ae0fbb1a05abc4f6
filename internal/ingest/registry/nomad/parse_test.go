package nomad

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// The types of events that the tests use. The code reads a service again after any type.
const (
	typeRegistration   = "ServiceRegistration"
	typeDeregistration = "ServiceDeregistration"
)

// documented returns an answer in testdata, which has the form of Nomad's documentation.
func documented(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestDocumentedAnswers(t *testing.T) {
	names, err := parseNames(documented(t, "services.json"), "default")
	if want := []string{"api", "orders"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("names %v, %v; want %v", names, err, want)
	}
	instances, err := parseRegistrations(documented(t, "service.json"))
	if err != nil {
		t.Fatal(err)
	}
	settings := DefaultSettings()
	got, err := settings.convert(settings.key("default", "orders"), instances)
	if err == nil || err.Error() != "instance _nomad-task-2-orders: metadata.weight: \"heavy\" is not a number\n"+
		"instance _nomad-task-3-orders has protocol HTTP2 and port 8080, and others have GRPC and 50051" {
		t.Errorf("error %v", err)
	}
	port := func(n uint32) map[string]uint32 { return map[string]uint32{"grpc-50051": n} }
	want := &adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "orders"}, Hosts: []string{"orders.service.nomad"},
		Ports: []adapter.Port{{Name: "grpc-50051", Number: 50051, Protocol: "GRPC"}},
		Instances: []adapter.Instance{
			{
				ID: "_nomad-task-1-orders", Address: "192.0.2.1", Ports: port(29702), Locality: "global/dc1", ServiceAccount: "orders",
				Labels: map[string]string{"job": "shop", "version": "v1"}, Weight: 20,
			},
			{ID: "_nomad-task-2-orders", Address: "192.0.2.2", Ports: port(27232), Locality: "eu/dc2", Labels: map[string]string{"job": "blue"}},
			{
				ID: "_nomad-task-3-orders", Address: "192.0.2.3", Ports: port(27233), Labels: map[string]string{"job": "shop"},
				Health: adapter.Draining,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if host := settings.host(settings.key("Prod", "orders")); host != "orders.prod.service.nomad" {
		t.Errorf("host %s", host)
	}
	if s, err := settings.convert(settings.key("default", "orders"), map[string]registration{"x": {ID: "x"}}); s != nil || err == nil {
		t.Errorf("service %v without ports, error %v", s, err)
	}
}

func TestDocumentedEvents(t *testing.T) {
	var got []event
	for line := range strings.Lines(string(documented(t, "events.ndjson"))) {
		list, err := parseEvents([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, list...)
	}
	if want := []event{{24, "orders"}, {31, "orders"}, {31, "api"}}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func TestMalformedAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                           "the list of services is not JSON of Nomad",
		`[{"Services":[{"Tags":[]}]}]`: "the list of services has one without a name",
	} {
		if _, err := parseNames([]byte(body), "default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`{}`:                      "the registrations are not JSON of Nomad",
		`[{"ServiceName":"web"}]`: "a registration has no ID",
	} {
		if _, err := parseRegistrations([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`[]`: "the events are not JSON of Nomad",
		`{"Events":[{"Topic":"Service","Type":"T","Index":7}]}`: "event T of index 7 names no service",
	} {
		if _, err := parseEvents([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
}
