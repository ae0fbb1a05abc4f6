package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/diagnostics/migration"
)

// migrationFlags are the flags of check-migration.
type migrationFlags struct {
	*pageClient
	files, values    []string
	format           string
	failureThreshold string
	all              bool
}

const migrationText = `check-migration reads an installation of istiod and lists what changes when meshpilot takes its place: objects, fields and
settings that are not served, those that are served differently, and differences that usually need no change. Each line has the
position and the field, what differs, and what to do. Nothing is changed.

The installation is a folder of manifests (--filename) with Helm values (--values), or the cluster of the kubeconfig. It consists of
the mesh's objects, also those of kinds that Istio has retired; of Deployments, pods and namespaces with Istio's labels and annotations;
and of istiod's own objects: its Deployments, whose arguments and environment variables are compared with those of pilot-discovery, the
ConfigMap istio with the mesh configuration, and the values of injection. Helm values that meshpilot's charts reject are listed;
docs/HELM-VALUES.md has all values. Kinds that the user may not list are named on standard error.

Differences of all installations, which concern no particular object, are only counted; --all lists them. They are the rows of
docs/adr/0007-differences-from-istiod.md. The exit code is 79, as of analyze, if a finding has at least the level of
--failure-threshold.`

// checkMigration returns the command that lists what changes when istiod is replaced
// (migrationFlags.run). It reads the files of --filename and --values, or without both the objects
// of the cluster. By default it fails if something is not served.
func (a *pageClient) checkMigration() *cobra.Command {
	f := &migrationFlags{pageClient: a}
	c := &cobra.Command{
		Use:   "check-migration [-f FILE|DIRECTORY]...",
		Short: "List what changes for an installation of istiod when meshpilot takes its place",
		Long:  migrationText, Args: cobra.NoArgs,
		Example: "  pilotctl check-migration -f istio-system/ -f apps/ --values values.yaml\n" +
			"  helm template istiod istio/istiod | pilotctl check-migration -f - -f apps/\n" +
			"  pilotctl check-migration --context production --failure-threshold different\n" +
			"  pilotctl check-migration -o json > findings.json",
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fs := c.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil,
		"manifest or directory; - is the standard input (default: the objects of the cluster)")
	fs.StringArrayVar(&f.values, "values", nil,
		"Helm values of the chart istiod, or of another one as CHART=FILE: base, cni or gateway")
	fs.StringVarP(&f.format, "output", "o", tableFormat, "table, json or yaml")
	fs.StringVar(&f.failureThreshold, "failure-threshold", string(migration.NotServed),
		"lowest level for which the command fails: not-served, different or information")
	fs.BoolVar(&f.all, "all", false, "also list the differences of all installations")
	return c
}

// run prints the report. It returns an *AnalysisError if a finding reaches the failure threshold.
// It refuses an unknown --failure-threshold or --output before it reads anything.
func (f *migrationFlags) run(c *cobra.Command) error {
	threshold := migration.Level(f.failureThreshold)
	switch {
	case !slices.Contains(migration.Levels(), threshold):
		return fmt.Errorf("--failure-threshold %q: want not-served, different or information", f.failureThreshold)
	case !slices.Contains([]string{tableFormat, jsonFormat, yamlFormat}, f.format):
		return fmt.Errorf("--output %q: want table, json or yaml", f.format)
	}
	o, what, err := f.read(c)
	if err != nil {
		return err
	}
	report, err := migration.Check(o)
	if err != nil {
		return err
	}
	if err := f.print(c.OutOrStdout(), report); err != nil {
		return err
	}
	n := 0
	for _, x := range report.Findings {
		if x.Level.AtLeast(threshold) {
			n++
		}
	}
	if n > 0 {
		return &AnalysisError{Findings: n, Analyzed: what}
	}
	return nil
}

// read returns the installation, and the names of its files or "the cluster" for messages. The
// cluster is read if neither files nor values are named. Values are FILE, of the chart istiod, or
// CHART=FILE. It returns an error if an input cannot be read.
func (f *migrationFlags) read(c *cobra.Command) (o migration.Options, what string, err error) {
	o.Now = time.Now()
	for _, text := range f.values {
		chart, path, found := strings.Cut(text, "=")
		if !found {
			chart, path = "istiod", text
		}
		file, err := readManifest(c, path)
		if err != nil {
			return o, "", fmt.Errorf("--values: %w", err)
		}
		o.Values = append(o.Values, migration.Values{Chart: chart, File: file})
	}
	if len(f.files)+len(f.values) == 0 {
		o.Cluster, err = readCluster(c.Context(), f.options(), c.ErrOrStderr())
		return o, "the cluster", err
	}
	o.Files, err = readManifests(c, f.files)
	return o, strings.Join(append(slices.Clone(f.files), f.values...), ", "), err
}

// print writes the report in the format of --output. Without --all it sets r.Always to nil, so that
// the differences of all installations are left out of JSON and YAML too.
func (f *migrationFlags) print(out io.Writer, r *migration.Report) error {
	var text []byte
	var err error
	always := len(r.Always)
	if !f.all {
		r.Always = nil
	}
	switch f.format {
	case jsonFormat:
		text, err = json.MarshalIndent(r, "", "    ")
		text = append(text, '\n')
	case yamlFormat:
		text, err = yaml.Marshal(r)
	default:
		text = []byte(migrationTable(r, always))
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// migrationTable returns the findings grouped by level, the differences of all installations in
// r.Always, and a summary. Of findings for information, each ID has one line, with the number of
// others. always is the number of differences for the summary, which names --all if r.Always is
// empty.
func migrationTable(r *migration.Report, always int) string {
	titles := map[migration.Level]string{
		migration.NotServed: "Not served", migration.Different: "Served differently",
		migration.Information: "Information",
	}
	var b strings.Builder
	var counts []string
	for _, level := range migration.Levels() {
		n := 0
		for i, f := range r.Findings {
			if f.Level != level {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(&b, "%s\n", titles[level])
			}
			if level == migration.Information && hasEarlier(r.Findings[:i], f.ID) {
				continue // one line for each difference
			}
			fmt.Fprintf(&b, "  %s%s\n", migrationLine(f), repetitions(r.Findings[i+1:], f))
		}
		if n > 0 {
			b.WriteString("\n")
		}
		counts = append(counts, fmt.Sprintf("%d %s", n, strings.ToLower(titles[level])))
	}
	if len(r.Always) > 0 {
		b.WriteString("All installations\n")
		for _, d := range r.Always {
			fmt.Fprintf(&b, "  %s: %s%s\n", d.Where, behaviours(d.Istiod, d.Here, d.Why), advice(d.Do))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d objects: %s; %d differences of all installations", r.Objects, strings.Join(counts, ", "),
		always)
	if len(r.Always) == 0 {
		b.WriteString(" (--all lists them)")
	}
	return b.String() + "\n"
}

// hasEarlier reports whether a list has a finding with an ID.
func hasEarlier(list []migration.Finding, id string) bool {
	return slices.ContainsFunc(list, func(f migration.Finding) bool { return f.ID == id })
}

// repetitions returns " (and N more)" if f is for information and more findings have its ID,
// otherwise "". list has the findings after f.
func repetitions(list []migration.Finding, f migration.Finding) string {
	n := 0
	for _, other := range list {
		if other.ID == f.ID && other.Level == migration.Information {
			n++
		}
	}
	if n == 0 || f.Level != migration.Information {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// migrationLine returns a finding in one line: ID, position, object, field, difference and advice.
// Parts that are not known are left out.
func migrationLine(f migration.Finding) string {
	about := []string{}
	if f.File != "" {
		about = append(about, lint.Finding{File: f.File, Line: f.Line, Column: f.Column}.Position())
	}
	for _, part := range []string{f.Object, f.Field} {
		if part != "" {
			about = append(about, part)
		}
	}
	return fmt.Sprintf("[%s] %s: %s: %s%s", f.ID, strings.Join(about, " "), f.Subject,
		behaviours(f.Istiod, f.Here, f.Why), advice(f.Do))
}

// behaviours returns the behaviour of both control planes, or only here if istiod is "". It appends
// the reason why in parentheses, unless that is "".
func behaviours(istiod, here, why string) string {
	text := here
	if istiod != "" {
		text = fmt.Sprintf("istiod: %s; meshpilot: %s", istiod, here)
	}
	if why != "" {
		text += " (" + why + ")"
	}
	return text
}

// advice returns ". To do: TEXT", or "" without a text.
func advice(text string) string {
	if text == "" {
		return ""
	}
	return ". To do: " + text
}
