package lint

import (
	"fmt"
	"path"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// suppressAnnotation has the codes, separated by commas, that are not reported for the object. "*"
// is all codes.
const suppressAnnotation = "galley.istio.io/analyze-suppress"

// Suppression removes the findings with a code for objects whose name ("Kind name.namespace")
// matches a pattern.
type Suppression struct {
	Code    code.Code
	Pattern string
}

// ParseSuppression parses the form of istioctl analyze --suppress: CODE=Kind name.namespace, in
// which * is any text. It returns an error if a part is missing or the pattern is malformed.
func ParseSuppression(text string) (Suppression, error) {
	c, pattern, found := strings.Cut(text, "=")
	if !found || c == "" || strings.TrimSpace(pattern) == "" {
		return Suppression{}, fmt.Errorf(
			"suppression %q: want CODE=RESOURCE, such as \"IST0102=Namespace default\"", text)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return Suppression{}, fmt.Errorf("suppression %q: %w", text, err)
	}
	return Suppression{Code: code.Code(c), Pattern: pattern}, nil
}

// matches reports whether the suppression has the code of a finding and its pattern (path.Match)
// matches the object's text. A malformed pattern matches none.
func (s Suppression) matches(f Finding) bool {
	matched, err := path.Match(s.Pattern, f.Object())
	return err == nil && matched && s.Code == f.Code
}

// isSuppressed reports whether a finding is removed by the Options, or by an annotation of its
// object with its code or "*".
func (r *analysisRun) isSuppressed(f Finding) bool {
	for _, s := range r.options.Suppressions {
		if s.matches(f) {
			return true
		}
	}
	o := r.byKey[f.Key]
	if o == nil {
		return false
	}
	for c := range strings.SplitSeq(o.meta.Annotations[suppressAnnotation], ",") {
		if c = strings.TrimSpace(c); c == "*" || c == string(f.Code) {
			return true
		}
	}
	return false
}
