package explain

import (
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"net/netip"
)

// TestUnknownPredicateDoesNotDisable: an inspector whose filter_disabled predicate is of an unknown
// kind runs, also if the predicate is negated, after a step that reports the predicate.
func TestUnknownPredicateDoesNotDisable(t *testing.T) {
	for _, c := range []struct {
		disabled string
		want     []string
	}{
		{"", []string{"detects no TLS"}},
		{"filter_disabled { any_match: true }", []string{"is disabled for connections to port 80"}},
		{"filter_disabled { not_match { any_match: true } }", []string{"detects no TLS"}},
		{"filter_disabled {}", []string{"its filter_disabled predicate is not supported", "detects no TLS"}},
		{"filter_disabled { not_match {} }", []string{"its filter_disabled predicate is not supported", "detects no TLS"}},
	} {
		l := parsed(t, new(listenerv3.Listener), `listener_filters { name: "tls_inspector" `+c.disabled+` }`)
		w := &walk{Resources: &Resources{}, path: new(Path), call: Call{To: netip.MustParseAddrPort("10.0.0.1:80")}}
		end := w.runListenerFilters(l)
		var got []string
		for _, s := range w.path.Steps {
			got = append(got, s.Decided)
		}
		if end != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: steps %q, ending %v; want %q", c.disabled, got, end, c.want)
		}
	}
}
