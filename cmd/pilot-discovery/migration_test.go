package main

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/diagnostics/migration"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// TestArgumentsForMigration compares the flags that `pilotctl check-migration` knows with the flags
// of this program.
func TestArgumentsForMigration(t *testing.T) {
	c, _, err := rootCommand(os.LookupEnv).Find([]string{"discovery"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(f *pflag.Flag) {
		if !slices.ContainsFunc(retired.DiscoveryFlags(), func(r retired.Flag) bool { return r.Name == f.Name }) {
			names = append(names, f.Name)
		}
	}
	c.InheritedFlags().VisitAll(add)
	c.LocalFlags().VisitAll(add)
	slices.Sort(names)
	if diff := cmp.Diff(slices.Compact(names), migration.Arguments()); diff != "" {
		t.Errorf("the flags of pilot-discovery and of migration.Arguments differ (-program +list):\n%s", diff)
	}
}
