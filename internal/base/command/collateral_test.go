package command_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

// collateral runs the command of a program with one visible and one hidden command.
func collateral(args ...string) error {
	root := &cobra.Command{Use: "program", Short: "does something", SilenceUsage: true, SilenceErrors: true}
	serve := &cobra.Command{Use: "serve", Short: "serves", Run: func(*cobra.Command, []string) {}}
	serve.Flags().String("address", "127.0.0.1", "where to listen")
	root.AddCommand(serve, &cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	command.TolerateUnknownFlags(root, args, os.Stderr)
	command.AddCollateral(root, "The Program")
	root.SetArgs(append([]string{"collateral"}, args...))
	return root.Execute()
}

// files returns the content of the files in a directory by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

func TestCollateral(t *testing.T) {
	for args, want := range map[string][]string{
		"--markdown":   {"program.md", "program_serve.md"},
		"--man":        {"program.1", "program-serve.1"},
		"--yaml":       {"program.yaml", "program_serve.yaml"},
		"--bash":       {"program.bash"},
		"--zsh":        {"_program"},
		"--bash --zsh": {"program.bash", "_program"},
		"--all":        {"program.md", "program_serve.md", "program.1", "program-serve.1", "program.yaml", "program_serve.yaml", "program.bash", "_program"},
	} {
		t.Run(args, func(t *testing.T) {
			dir, again := t.TempDir(), t.TempDir()
			for _, d := range []string{dir, again} {
				if err := collateral(append(strings.Fields(args), "-o", d)...); err != nil {
					t.Fatal(err)
				}
			}
			got := files(t, dir)
			slices.Sort(want)
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(name string) bool { return strings.Contains(name, "completion") })
			if !slices.Equal(names, want) {
				t.Errorf("files %q, want %q", names, want)
			}
			if !maps.Equal(got, files(t, again)) {
				t.Error("a second run wrote other files")
			}
			for name, text := range got {
				if strings.Contains(name, "serve") && !strings.Contains(text, "where to listen") {
					t.Errorf("%s does not describe the flag --address:\n%s", name, text)
				}
				if filepath.Ext(name) == ".bash" {
					if out, err := exec.Command("bash", "-n", filepath.Join(dir, name)).CombinedOutput(); err != nil {
						t.Errorf("bash refuses %s: %v\n%s", name, err, out)
					}
				}
			}
		})
	}
}

func TestCollateralErrors(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"":                                  "choose at least one of --all, --markdown, --man, --yaml, --bash, --zsh",
		"--html_fragment_with_front_matter": "use --markdown",
		"--all --html_fragment_with_front_matter": "use --markdown",
		"--markdwon":                   "unknown flag: --markdwon",
		"--all more":                   "unknown command",
		"--all -o " + dir + "/missing": "is no directory",
	} {
		if err := collateral(append([]string{"-o", dir}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", args, err, want)
		}
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("files were written: %q", slices.Collect(maps.Keys(got)))
	}
}
