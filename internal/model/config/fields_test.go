package config

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
)

func TestUnhonouredFieldsAreNamed(t *testing.T) {
	honoured := Fields{"hosts", "http.route.destination", "http.match"}
	spec := &networking.VirtualService{
		Hosts: []string{"web"}, ExportTo: []string{"."},
		Http: []*networking.HTTPRoute{{}, {
			Match: []*networking.HTTPMatchRequest{{Name: "all of it is honoured"}},
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "web"}, Weight: 3}},
			Fault: &networking.HTTPFaultInjection{},
		}},
	}
	var got []string
	for _, p := range honoured.Unhonoured(spec) {
		got = append(got, p.Field)
	}
	slices.Sort(got)
	want := []string{"spec.exportTo", "spec.http[1].fault", "spec.http[1].route[0].weight"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeavesReachEveryLevel(t *testing.T) {
	got := LeafPaths(new(networking.VirtualService))
	for _, want := range []string{"hosts", "http.match.uri.exact", "http.timeout", "http.route.headers.request.set", "tls.match.sniHosts"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among the %d leaves", want, len(got))
		}
	}
}
