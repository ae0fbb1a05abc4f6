package compat

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommandsOfIstioctl finds every command of istioctl, or the group that it belongs to, in the table of
// docs/PILOTCTL.md.
func TestCommandsOfIstioctl(t *testing.T) {
	path := peer(t, "istioctl")
	text, err := os.ReadFile("../../../docs/PILOTCTL.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `istioctl ([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = true
	}
	// authz only refers to experimental authz, and help has no equivalent to name.
	checkCommands(t, path, listed, nil, []string{"authz", "help"})
}

// checkCommands reports the commands below a group of istioctl that are neither listed nor ignored, nor in a
// group that is listed.
func checkCommands(t *testing.T, path string, listed map[string]bool, group, ignored []string) {
	t.Helper()
	for _, name := range subcommands(t, path, group) {
		command := append(slices.Clone(group), name)
		words := strings.Join(command, " ")
		switch {
		case listed[words] || slices.Contains(ignored, words):
		case len(subcommands(t, path, command)) == 0:
			t.Errorf("docs/PILOTCTL.md has no row for istioctl %s", words)
		default:
			checkCommands(t, path, listed, command, ignored)
		}
	}
}

// subcommands returns the names of the commands below a group of istioctl, as its completion lists them.
func subcommands(t *testing.T, path string, group []string) (names []string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), path, append(append([]string{"__complete"}, group...), "")...)
	c.Env = append(os.Environ(), "KUBECONFIG="+t.TempDir()+"/none")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("istioctl __complete %s: %v", strings.Join(group, " "), err)
	}
	for line := range strings.Lines(string(out)) {
		if name, _, described := strings.Cut(strings.TrimSpace(line), "\t"); described {
			names = append(names, name)
		}
	}
	return names
}
