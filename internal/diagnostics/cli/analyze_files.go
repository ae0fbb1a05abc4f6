package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// maxInput limits the size of standard input.
const maxInput = 256 << 20

// readManifests reads the files of paths, whatever their extensions, and all manifests below
// directories of paths (decode.ManifestsBelow). Links to directories below a directory are skipped
// with a warning. "-" is standard input. It returns an error if a path cannot be read, or if there
// are paths but no file is found.
func readManifests(c *cobra.Command, paths []string) ([]lint.File, error) {
	var list []lint.File
	for _, path := range paths {
		names, links, err := manifestNames(path)
		if err != nil {
			return nil, err
		}
		for _, link := range links {
			if info, err := os.Stat(link); err == nil && info.IsDir() {
				// a failed warning is ignored
				_, _ = fmt.Fprintf(c.ErrOrStderr(), "warning: %s is not read: it is a link to a directory\n", link)
			}
		}
		for _, name := range names {
			f, err := readManifest(c, name)
			if err != nil {
				return nil, err
			}
			list = append(list, f)
		}
	}
	if len(list) == 0 && len(paths) > 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "),
			errors.New("there are no *.yaml, *.yml or *.json files"))
	}
	return list, nil
}

// manifestNames returns the manifests below path, and the other links there, if path is a directory
// (decode.ManifestsBelow). A file, and "-" for standard input, is returned itself. It returns an
// error if path does not exist.
func manifestNames(path string) (names, links []string, err error) {
	if path == "-" {
		return []string{path}, nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return decode.ManifestsBelow(path)
	default:
		return []string{path}, nil, nil
	}
}

// readManifest reads one file, or standard input for "-"; its Name is the path with slashes. It
// returns an error for more than maxInput bytes of standard input; files have no limit.
func readManifest(c *cobra.Command, path string) (lint.File, error) {
	if path == "-" {
		text, err := io.ReadAll(io.LimitReader(c.InOrStdin(), maxInput+1))
		if err == nil && len(text) > maxInput {
			err = fmt.Errorf("standard input has more than %d bytes", maxInput)
		}
		return lint.File{Name: "-", Text: text}, err
	}
	text, err := os.ReadFile(path)
	return lint.File{Name: filepath.ToSlash(path), Text: text}, err
}
