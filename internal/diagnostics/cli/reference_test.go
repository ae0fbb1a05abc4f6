package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/PILOTCTL.md") //nolint:gochecknoglobals // a flag

// TestReference compares docs/PILOTCTL.md with the command tree.
func TestReference(t *testing.T) {
	const path = "../../../docs/PILOTCTL.md"
	want := Reference(New())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/PILOTCTL.md differs (-want +got; go test -update rewrites it):\n%s", diff)
	}
}

// TestEquivalentsExist finds every command of the table for users of istioctl in the command tree.
func TestEquivalentsExist(t *testing.T) {
	for _, e := range equivalents() {
		if e.pilotctl == "" {
			continue
		}
		c, rest, err := New().Find(strings.Fields(e.pilotctl))
		if err != nil || len(rest) > 0 || c.CommandPath() != "pilotctl "+e.pilotctl {
			t.Errorf("istioctl %s: there is no pilotctl %s (%v)", e.istioctl, e.pilotctl, err)
		}
	}
}
