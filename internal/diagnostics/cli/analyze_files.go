package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// maxInput limits the size of standard input.
const maxInput = 256 << 20

// readManifests reads the files of paths, and all *.yaml, *.yml and *.json files below its
// directories. In these, names that begin with a dot are skipped. "-" is standard input. It returns
// an error if there are paths, but no file is found. A file that is named is read whatever its
// extension.
func readManifests(c *cobra.Command, paths []string) ([]lint.File, error) {
	var list []lint.File
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == "-" || (err == nil && !info.IsDir()) {
			f, err := readManifest(c, path)
			if err != nil {
				return nil, err
			}
			list = append(list, f)
			continue
		}
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			hidden := at != path && strings.HasPrefix(d.Name(), ".")
			switch {
			case err != nil:
				return err
			case hidden && d.IsDir():
				return filepath.SkipDir
			case d.IsDir() || hidden || !decode.IsManifest(at):
				return nil
			}
			f, err := readManifest(c, at)
			list = append(list, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(list) == 0 && len(paths) > 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "),
			errors.New("there are no *.yaml, *.yml or *.json files"))
	}
	return list, nil
}

// readManifest reads one file, or standard input for "-". It returns an error for more than
// maxInput bytes of standard input.
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
