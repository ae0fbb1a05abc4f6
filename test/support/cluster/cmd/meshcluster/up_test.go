package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// TestFlagsReachTheBackgroundProcess checks that flags of "up", without those of the root command,
// are passed to the process that runs the cluster.
func TestFlagsReachTheBackgroundProcess(t *testing.T) {
	var got []string
	s, name := &settings{}, ""
	up := &cobra.Command{Use: "up", RunE: func(cmd *cobra.Command, _ []string) error { got = flagsOf(cmd); return nil }}
	s.addFlags(up)
	root := &cobra.Command{Use: "meshcluster"}
	root.PersistentFlags().StringVar(&name, "name", "", "")
	root.AddCommand(up)
	root.SetArgs([]string{"--name", "x", "up", "--tier", "api", "--gateway-api", "standard", "--set", "a=1", "--set", "b=2,3"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := []string{"--gateway-api=standard", "--set=a=1", "--set=b=2,3", "--tier=api"}; !slices.Equal(got, want) {
		t.Errorf("flags %q, want %q", got, want)
	}
}
