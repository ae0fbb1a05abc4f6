package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// source is the checkout that a release is made of.
type source struct {
	root, commit string
	time         time.Time // of the commit; SOURCE_DATE_EPOCH of all files
}

// readSource returns the checkout of the working directory. It returns an error if the version
// differs from the one of the programs, the charts or the first entry of CHANGELOG.md, or if files
// are changed and not committed, unless o.allowDirty is set.
func readSource(ctx context.Context, o options) (source, error) {
	var s source
	var err error
	if s.root, err = git(ctx, ".", "rev-parse", "--show-toplevel"); err != nil {
		return s, err
	}
	if s.commit, err = git(ctx, s.root, "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	seconds, err := git(ctx, s.root, "log", "-1", "--format=%ct")
	if err != nil {
		return s, err
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("time of the commit: %w", err)
	}
	s.time = time.Unix(epoch, 0).UTC()
	changed, err := git(ctx, s.root, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	if changed != "" && !o.allowDirty {
		return s, fmt.Errorf("the checkout has changes that are not committed:\n%s", changed)
	}
	return s, s.checkVersion(o.version)
}

// git returns the output of a git command in a directory, without space at its ends.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

var (
	chartVersion     = regexp.MustCompile(`(?m)^(?:version|appVersion): "?([^"\n]+)"?$`)
	changelogVersion = regexp.MustCompile(`(?m)^## \[?([0-9][^\] \n]*)`)
)

// checkVersion returns an error that names each file whose version differs.
func (s source) checkVersion(version string) error {
	if version == "" {
		return errors.New("--version is missing")
	}
	var wrong []error
	compare := func(place, found string) {
		if found != version {
			wrong = append(wrong, fmt.Errorf("the version in %s is %q, not --version %q", place, found, version))
		}
	}
	compare("internal/base/obs/build.go", obs.Version)
	for _, name := range chartNames() {
		file := filepath.Join("manifests", "charts", name, "Chart.yaml")
		text, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		for _, match := range chartVersion.FindAllStringSubmatch(string(text), -1) {
			compare(file, match[1])
		}
	}
	text, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	first := changelogVersion.FindStringSubmatch(string(text))
	if first == nil {
		return errors.New("CHANGELOG.md has no version")
	}
	compare("the first entry of CHANGELOG.md", first[1])
	return errors.Join(wrong...)
}
