package command

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestNegativeNumbers checks that a negative value of a flag is not reported as an unknown flag.
func TestNegativeNumbers(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.Duration("age", 0, "")
	got := unknownFlags(fs, []string{"--age", "-1s", "-x", "--bogus", "-2", "--", "-y"})
	if want := []string{"-x", "--bogus"}; !slices.Equal(got, want) {
		t.Errorf("unknown flags %q, want %q", got, want)
	}
}
