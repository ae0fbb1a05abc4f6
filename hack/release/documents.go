package main

import (
	"context"
	"os"
	"path/filepath"
)

// share returns the path of a file below usr/share of the packages.
func (r *release) share(parts ...string) string {
	return filepath.Join(append([]string{r.work, "share"}, parts...)...)
}

// documented lists the programs that write their own man pages and completion.
func documented() []string { return []string{"pilot-agent", "pilot-discovery", "pilotctl"} }

// writeDocuments writes the man pages and the completion for bash, zsh and fish of each program
// with this machine's build of it, into a folder for each program: share/PROGRAM.
func (r *release) writeDocuments(ctx context.Context) error {
	for _, name := range documented() {
		program := r.program(hostPlatform(), name)
		man := r.share(name, "man", "man1")
		if err := os.MkdirAll(man, 0o755); err != nil {
			return err
		}
		args := []string{"collateral", "--man", "--outputDir", man}
		if name == "pilotctl" {
			args = []string{"man", man}
		}
		if err := r.runCommand(ctx, nil, program, args...); err != nil {
			return err
		}
		if err := compressFiles(man); err != nil {
			return err
		}
		for shell, file := range map[string]string{
			"bash": "bash-completion/completions/" + name,
			"zsh":  "zsh/site-functions/_" + name,
			"fish": "fish/vendor_completions.d/" + name + ".fish",
		} {
			path := r.share(name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := r.writeOutput(ctx, path, program, "completion", shell); err != nil {
				return err
			}
		}
	}
	return nil
}

// compressFiles replaces each file of a directory by a compressed one, NAME.gz, as man pages are
// installed.
func compressFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := writeGzip(path+".gz", text); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
