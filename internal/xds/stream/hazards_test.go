package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// hazards are the known ways to implement the protocol wrongly. Each is covered by scripts whose
// first line names it ("# X1, X4: …"). A hazard that cannot occur in a state machine names the
// package that covers it.
var hazards = []struct{ id, what, elsewhere string }{
	{"X1", "a NACK is error_detail, and nothing else is", ""},
	{"X2", "SotW: a request with a stale nonce is not answered", ""},
	{"X3", "delta: subscriptions in a request with a stale nonce are applied", ""},
	{"X4", "names that come with a NACK are served", ""},
	{"X5", "wildcards, explicit and by the legacy rule", ""},
	{"X6", "delta: a name subscribed to again is answered again", ""},
	{"X7", "an unknown name is answered if that is safe, and remembered", ""},
	{"X8", "a reconnect sends only differences and removals", ""},
	{"X9", "a nonce is valid on its own stream", ""},
	{"X10", "SotW: CDS and LDS are full state, the others are not", ""},
	{"X11", "no name comes twice in one response", ""},
	{"X12", "warming needs a new EDS response, and delays no other cluster", ""},
	{"X13", "a missing secret", ""},
	{"X14", "make before break", ""},
	{"X15", "unchanged resources are not sent again", ""},
	{"X16", "only the first request must carry the node", "xds/server: a Machine knows no node"},
	{"X17", "a health report may come before the first request", ""},
	{"X18", "an extension must not be removed before its listeners", ""},
	{"X19", "a removed parent leaves its child subscribed", ""},
	{
		"X20",
		"two streams with one node id",
		"xds/server: a Machine is one stream and knows of no other; TestScripts plays each script to two",
	},
}

// TestHazards checks that every hazard has a script, and that scripts name only known hazards.
func TestHazards(t *testing.T) {
	scorecard.Check(t, 16, scorecard.Size("hazards of the protocol", len(hazards)))
	shown := map[string][]string{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`^# ((?:X\d+(?:, )?)+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := header.FindStringSubmatch(string(text)); m != nil {
			for id := range strings.SplitSeq(strings.TrimSuffix(m[1], ", "), ", ") {
				shown[id] = append(shown[id], file)
			}
		}
	}
	for i, h := range hazards {
		if h.id != fmt.Sprintf("X%d", i+1) {
			t.Errorf("hazard %d is called %s", i+1, h.id)
		}
		if len(shown[h.id]) == 0 && h.elsewhere == "" {
			t.Errorf("%s (%s) has no script", h.id, h.what)
		}
		delete(shown, h.id)
	}
	for id, files := range shown {
		t.Errorf("%v name %s, which is not a known hazard", slices.Sorted(slices.Values(files)), id)
	}
}
