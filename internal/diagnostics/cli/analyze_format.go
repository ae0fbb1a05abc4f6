package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// AnalysisError is the error of an analysis that worked and has findings of the failure threshold.
type AnalysisError struct {
	// Findings is the number of these findings, and Analyzed describes the analyzed inputs.
	Findings int
	Analyzed string
}

// Error returns the number of findings and what was analyzed.
func (e *AnalysisError) Error() string {
	if e.Findings == 1 {
		return "1 issue found when analyzing " + e.Analyzed
	}
	return fmt.Sprintf("%d issues found when analyzing %s", e.Findings, e.Analyzed)
}

// analysisError returns an *AnalysisError with the number of findings that reach the level failure,
// or nil if there are none. If there is no finding at all and format is text or log, it prints a
// success message to standard error. what names the analyzed inputs.
func analysisError(c *cobra.Command, format string, result lint.Result, failure code.Level, what string) error {
	n := 0
	for _, f := range result.Findings {
		if f.Level.AtLeast(failure) {
			n++
		}
	}
	if n > 0 {
		return &AnalysisError{Findings: n, Analyzed: what}
	}
	if len(result.Findings) == 0 && (format == "text" || format == "log") {
		fmt.Fprintf(c.ErrOrStderr(), "✔ No validation issues found when analyzing %s (%d objects).\n", what,
			result.Objects)
	}
	return nil
}

// findingFormats returns the values of --output. log is istioctl's name for text.
func findingFormats() []string { return []string{"text", "log", "json", "yaml", "sarif", "github"} }

// writeFindings prints findings in one of findingFormats. color applies to text only. An unknown
// format is printed as text.
func writeFindings(c *cobra.Command, format string, color bool, list []lint.Finding) error {
	out := c.OutOrStdout()
	switch format {
	case "json":
		return writeJSON(out, jsonFindings(list))
	case "yaml":
		body, err := yaml.Marshal(jsonFindings(list))
		if err == nil {
			_, err = out.Write(body)
		}
		return err
	case "sarif":
		return writeJSON(out, sarifReport(list))
	case "github":
		return writeAnnotations(out, list)
	default:
		return writeText(out, color, list)
	}
}

// writeText prints a line for each finding: level, code, object, position, field and message.
// Without findings it prints nothing.
func writeText(out io.Writer, color bool, list []lint.Finding) error {
	for _, f := range list {
		level := string(f.Level)
		if color {
			level = map[code.Level]string{code.Error: "\x1b[31m", code.Warning: "\x1b[33m",
				code.Info: "\x1b[36m"}[f.Level] + level + "\x1b[0m"
		}
		about := strings.TrimSpace(f.Object() + " " + f.Position())
		if _, err := fmt.Fprintf(out, "%s [%s] (%s) %s\n", level, f.Code, about, fieldMessage(f)); err != nil {
			return err
		}
	}
	return nil
}

// fieldMessage returns "FIELD: MESSAGE", or the message of a finding without a field.
func fieldMessage(f lint.Finding) string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// writeJSON prints v as indented JSON.
func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "\t")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// jsonFinding is a finding in JSON and YAML. The first five fields are the same as istioctl's.
type jsonFinding struct {
	Code             string `json:"code"`
	Level            string `json:"level"`
	Origin           string `json:"origin,omitempty"`
	Reference        string `json:"reference,omitempty"`
	Message          string `json:"message"`
	DocumentationURL string `json:"documentationUrl,omitempty"`
	Field            string `json:"field,omitempty"`
	File             string `json:"file,omitempty"`
	Line             int    `json:"line,omitempty"`
	Column           int    `json:"column,omitempty"`
}

// jsonFindings returns the findings, in their order, in the form of istioctl's JSON output, with
// additional fields. The result is never nil.
func jsonFindings(list []lint.Finding) []jsonFinding {
	out := make([]jsonFinding, 0, len(list))
	for _, f := range list {
		out = append(out, jsonFinding{
			Code: string(f.Code), Level: string(f.Level), Origin: f.Object(), Reference: f.Position(),
			Message:          fieldMessage(f),
			DocumentationURL: documentationURL(f.Code), Field: f.Field, File: f.File, Line: f.Line, Column: f.Column,
		})
	}
	return out
}

// documentationURL returns the page of Istio about one of its codes, or "".
func documentationURL(c code.Code) string {
	if !strings.HasPrefix(string(c), "IST") {
		return ""
	}
	return "https://istio.io/latest/docs/reference/config/analysis/" + strings.ToLower(string(c)) + "/"
}

// writeAnnotations prints the findings as workflow commands of GitHub Actions (error, warning or
// notice), which shows them beside the changed lines. Their titles are code and object. A finding
// without a line has no position.
func writeAnnotations(out io.Writer, list []lint.Finding) error {
	for _, f := range list {
		command := map[code.Level]string{code.Error: "error", code.Warning: "warning", code.Info: "notice"}[f.Level]
		properties := []string{}
		if f.Line > 0 {
			properties = append(properties, "file="+escapeProperty(f.File),
				fmt.Sprintf("line=%d,col=%d", f.Line, f.Column))
		}
		properties = append(properties, "title="+escapeProperty(string(f.Code)+" "+f.Object()))
		if _, err := fmt.Fprintf(out, "::%s %s::%s\n", command, strings.Join(properties, ","),
			escapeData(fieldMessage(f))); err != nil {
			return err
		}
	}
	return nil
}

// escapeData escapes the text of a workflow command of GitHub Actions.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty escapes the value of a property of a workflow command.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}
