package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// collateralFormat is one kind of files that the collateral command writes.
type collateralFormat struct {
	flag, usage string
	write       func(root *cobra.Command, title, dir string) error
}

// collateralFormats returns the formats that --all writes: markdown, man, yaml, bash and zsh. The
// flags and file names are Istio's.
func collateralFormats() []collateralFormat {
	return []collateralFormat{
		{"markdown", "write a Markdown page for each command", func(root *cobra.Command, _, dir string) error {
			return doc.GenMarkdownTree(root, dir)
		}},
		{"man", "write a man page for each command", func(root *cobra.Command, title, dir string) error {
			return doc.GenManTree(root, &doc.GenManHeader{Title: title, Section: "1", Manual: title}, dir)
		}},
		{"yaml", "write a YAML description of each command", func(root *cobra.Command, _, dir string) error {
			return doc.GenYamlTree(root, dir)
		}},
		{"bash", "write the completion of bash", func(root *cobra.Command, _, dir string) error {
			return root.GenBashCompletionFileV2(filepath.Join(dir, root.Name()+".bash"), true)
		}},
		{"zsh", "write the completion of zsh", func(root *cobra.Command, _, dir string) error {
			return root.GenZshCompletionFile(filepath.Join(dir, "_"+root.Name()))
		}},
	}
}

// htmlFlag is the format of Istio's command that is refused: the source of istio.io's reference
// pages.
const htmlFlag = "html_fragment_with_front_matter"

// htmlSuccessor is the error of a command line with htmlFlag.
const htmlSuccessor = "collateral: --" + htmlFlag +
	" is not supported; use --markdown, and for environment variables " +
	"and metrics docs/ENVIRONMENT.md and docs/METRICS.md"

// AddCollateral adds the hidden command "collateral" to a program, as Istio's programs have it. It
// writes documentation and shell completion into an existing directory. It fails without a format,
// and with the HTML format of Istio's website. The files depend on the commands only, not on the
// time.
func AddCollateral(root *cobra.Command, title string) {
	var dir string
	var all, html bool
	chosen := map[string]*bool{}
	c := &cobra.Command{
		Use: "collateral", Short: "Write documentation and shell completion of this program", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if html {
				return errors.New(htmlSuccessor)
			}
			return writeCollateral(root, title, dir, func(flag string) bool { return all || *chosen[flag] })
		},
	}
	fs := c.Flags()
	fs.StringVarP(&dir, "outputDir", "o", ".", "existing directory to write the files into")
	fs.BoolVar(&all, "all", false, "write the files of all supported formats")
	for _, f := range collateralFormats() {
		chosen[f.flag] = fs.Bool(f.flag, false, f.usage)
	}
	fs.BoolVar(&html, htmlFlag, false, "is refused: use --markdown")
	_ = fs.MarkHidden(htmlFlag) // it was just added
	root.AddCommand(c)
}

// writeCollateral writes the chosen formats to dir. It returns an error if none is chosen, dir is
// no directory, or a format fails. It sets root.DisableAutoGenTag, so that pages do not depend on
// the date.
func writeCollateral(root *cobra.Command, title, dir string, chosen func(flag string) bool) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("collateral: --outputDir %s is no directory", dir)
	}
	root.DisableAutoGenTag = true // it has the date
	var flags []string
	written := false
	for _, f := range collateralFormats() {
		flags = append(flags, "--"+f.flag)
		if !chosen(f.flag) {
			continue
		}
		written = true
		if err := f.write(root, title, dir); err != nil {
			return fmt.Errorf("collateral --%s: %w", f.flag, err)
		}
	}
	if !written {
		return errors.New("collateral: choose at least one of --all, " + strings.Join(flags, ", "))
	}
	return nil
}
