package envoy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseLevels; whole argument lists are in the goldens of package command.
func TestParseLevels(t *testing.T) {
	tests := []struct {
		both, components string
		want             Levels
	}{
		{"warning,misc:error", "", Levels{"warning", []string{"misc:error"}}},
		{"debug", "", Levels{Default: "debug"}},
		{"misc:error", "", Levels{"warning", []string{"misc:error"}}},
		{"info", "misc:error,http2:trace", Levels{"info", []string{"misc:error", "http2:trace"}}},
		{"info,misc:error", "misc:off", Levels{"info", []string{"misc:error"}}},
	}
	for _, test := range tests {
		got, err := ParseLevels(test.both, test.components)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%q, %q: %v (-want +got):\n%s", test.both, test.components, err, diff)
		}
	}
	for _, bad := range [][2]string{{"loud", ""}, {"", ""}, {"misc:", ""}, {":info", ""}, {"info", "misc"}, {"info", ":info"}, {"info", "misc:loud"}} {
		if _, err := ParseLevels(bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), "envoy log level") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestAddressVersion(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for want, lists := range map[string][][]netip.Addr{"v4": {nil, {v4}, {v6, v4}}, "v6": {{v6}}} {
		for _, list := range lists {
			if got := addressVersion(list); got != want {
				t.Errorf("%v: %s, want %s", list, got, want)
			}
		}
	}
}
