package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

// pairCommand measures two control planes crossed, A B B A, so that what drifts on the machine hits
// both.
func pairCommand() *cobra.Command {
	var f flags
	var a, b, out string
	var rounds int
	c := &cobra.Command{
		Use: "pair", Short: "Measure two control planes in turn and compare them", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var planes [2]target.Plane
			for i, text := range []string{a, b} {
				var err error
				if planes[i], err = target.ParsePlane(text); err != nil {
					return err
				}
			}
			groups, err := f.groupsWanted()
			if err != nil {
				return err
			}
			done, err := f.completeOptions()
			if err != nil {
				return err
			}
			defer done()
			var results [2]report.File
			for _, g := range groups {
				for round := range rounds {
					for _, side := range runOrder(round) {
						fmt.Fprintf(os.Stderr, "round %d of %d, %s\n", round+1, rounds, "AB"[side:side+1])
						if err := f.measureGroups(
							c.Context(),
							planes[side],
							[]scenario.Group{g},
							&results[side],
						); err != nil {
							return err
						}
					}
				}
			}
			for i := range results {
				if err := results[i].Write(filepath.Join(out, "AB"[i:i+1]+".json")); err != nil {
					return err
				}
			}
			report.Compare(c.OutOrStdout(), &results[0], &results[1])
			return nil
		},
	}
	f.addFlags(c.Flags())
	c.Flags().StringVar(&a, "a", filepath.Join("bin", "pilot-discovery"), "the first control plane")
	c.Flags().StringVar(&b, "b", "", "the second control plane")
	c.Flags().IntVar(&rounds, "rounds", 2, "how often each is measured")
	c.Flags().StringVar(&out, "out", ".", "directory for A.json and B.json")
	return c
}

// runOrder is A B in even rounds and B A in odd ones.
func runOrder(round int) []int {
	if round%2 == 0 {
		return []int{0, 1}
	}
	return []int{1, 0}
}
