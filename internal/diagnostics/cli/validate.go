package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// validateCommand returns the command that validates the objects of --filename and of its
// arguments, each by itself. It prints the findings and fails with an *AnalysisError if one is an
// Error. Without files or with an unknown format it fails before it reads anything.
func (a *pageClient) validateCommand() *cobra.Command {
	var files []string
	var output string
	c := &cobra.Command{
		Use: "validate -f FILE...", Short: "Validate the objects of files, each by itself",
		Long: "validate checks that each object can be read and that its values are valid, as the validation webhook does. It looks up no\n" +
			"references to other objects: use analyze for these.\n\n" +
			"The exit code is 79 if an object has an error. Warnings do not change the exit code.",
		Example: "  pilotctl validate -f web.yaml\n  helm template chart | pilotctl validate -f -",
		RunE: func(c *cobra.Command, args []string) error {
			files = append(files, args...)
			if len(files) == 0 {
				return errors.New("nothing to validate: name files with --filename")
			}
			if !slices.Contains(findingFormats(), output) {
				return fmt.Errorf("--output %q: want %s", output, strings.Join(findingFormats(), ", "))
			}
			list, err := readManifests(c, files)
			if err != nil {
				return err
			}
			result := lint.Validate(list)
			if err := writeFindings(c, output, false, result.Findings); err != nil {
				return err
			}
			return analysisError(c, output, result, code.Error, strings.Join(files, ", "))
		},
	}
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "file or directory; - is standard input")
	c.Flags().StringVarP(&output, "output", "o", "text", "text, json, yaml, sarif or github")
	return c
}
