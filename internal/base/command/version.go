package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// Version returns the version command, which prints the build information in one line. With
// --output it prints JSON or YAML, and any other format is an error. With --short, unless --output
// is set, it prints only the version.
func Version() *cobra.Command {
	var short bool
	var output string
	c := &cobra.Command{
		Use: "version", Short: "Print the version and how the binary was built", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := obs.ReadBuild()
			switch {
			case output == "json" || output == "yaml":
				text, err := json.MarshalIndent(map[string]obs.Build{"clientVersion": b}, "", "  ")
				if err == nil && output == "yaml" {
					text, err = yaml.JSONToYAML(text)
				}
				if err != nil {
					return fmt.Errorf("encode version: %w", err)
				}
				c.Println(string(text))
			case output != "":
				return fmt.Errorf("--output %q: want json or yaml", output)
			case short:
				c.Println(b.Version)
			default:
				c.Printf("version.BuildInfo{Version:%q, GitRevision:%q, GolangVersion:%q, BuildStatus:%q, GitTag:%q}\n",
					b.Version, b.GitRevision, b.GolangVersion, b.BuildStatus, b.GitTag)
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&short, "short", "s", false, "print the version alone")
	c.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return c
}
