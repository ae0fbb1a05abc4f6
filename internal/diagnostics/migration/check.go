package migration

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// listType is the type to which lists of CEL are converted.
var listType = reflect.TypeFor[[]any]()

// Finding is a difference at a place of the installation.
type Finding struct {
	Level Level `json:"level"`
	// ID is the ID of a Difference, or the code of a message of pilotctl analyze.
	ID string `json:"id"`
	// Object is "Kind name.namespace", and Field the path in it, or the name of a variable or flag.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// File, Line and Column are the position of the field. File is empty for objects of a cluster.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Subject is what differs, Istiod and Here how, Why the reason, and Do the advice. All but
	// Subject and Here may be empty.
	Subject string `json:"subject"`
	Istiod  string `json:"istiod,omitempty"`
	Here    string `json:"here"`
	Why     string `json:"why,omitempty"`
	Do      string `json:"do,omitempty"`

	key config.Key
}

// Report is the result of Check.
type Report struct {
	// Findings are sorted by level, file and position.
	Findings []Finding `json:"findings"`
	// Always are the differences that apply to every installation.
	Always []Difference `json:"always,omitempty"`
	// Objects is the number of objects that were read.
	Objects int `json:"objects"`
}

// run is the state of one Check.
type run struct {
	subjects []*subject
	istiods  []*istiod
	// mesh is the first mesh configuration, or empty.
	mesh     map[string]any
	findings []Finding
}

// Options are the inputs of Check.
type Options struct {
	lint.Options
	// Values are the Helm values of the installation. The mesh configuration in them precedes the
	// one of a ConfigMap.
	Values []Values
}

// Check returns what changes for an installation. It returns an error if the mesh configuration or
// the values cannot be parsed, or values are of an unknown chart. Findings of files are positioned,
// findings of o.Cluster are not. They are sorted, without duplicates.
func Check(o Options) (*Report, error) {
	sections, err := Sections()
	if err != nil {
		return nil, err
	}
	values, err := readValues(o.Values)
	if err != nil {
		return nil, err
	}
	if o.MeshConfig, err = meshConfigOf(values, o.MeshConfig); err != nil {
		return nil, err
	}
	result, err := lint.Analyze(o.Options)
	if err != nil {
		return nil, err
	}
	r := newRun(result.Documents, values)
	report := &Report{Always: r.addDifferences(sections), Objects: result.Objects}
	for _, add := range []func() error{
		r.addSettingsOfIstiod, r.addVariablesOfAgents, r.addInjectorValues, func() error { return r.addValues(values) },
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	r.addAnalysis(result.Findings)
	r.addRetiredAnnotations()
	for i, f := range r.findings {
		if slices.ContainsFunc(o.Cluster, func(c lint.File) bool { return c.Name == f.File }) {
			r.findings[i].File, r.findings[i].Line, r.findings[i].Column = "", 0, 0
		}
	}
	slices.SortStableFunc(r.findings, Finding.compare)
	report.Findings = slices.Compact(r.findings)
	return report, nil
}

// newRun returns a run over the objects and the values of an installation, in which it looks for
// istiods and the mesh configuration. Without a mesh configuration r.mesh is empty.
func newRun(documents []lint.Document, values []valuesFile) *run {
	r := &run{mesh: map[string]any{}}
	r.addValueSubjects(values)
	r.subjects = append(r.subjects, readSubjects(documents)...)
	for _, s := range r.subjects {
		if i := readIstiod(s); i != nil {
			r.istiods = append(r.istiods, i)
		}
	}
	if s := r.meshConfig(); s != nil {
		r.mesh = s.root
	}
	return r
}

// meshConfig returns the first mesh configuration, or nil if there is none.
func (r *run) meshConfig() *subject {
	at := slices.IndexFunc(r.subjects, func(s *subject) bool { return s.kind == "MeshConfig" })
	if at < 0 {
		return nil
	}
	return r.subjects[at]
}

// compare orders findings by level, file, position, object and field.
func (f Finding) compare(o Finding) int {
	return cmp.Or(
		cmp.Compare(slices.Index(Levels(), f.Level), slices.Index(Levels(), o.Level)),
		cmp.Compare(f.File, o.File),
		cmp.Compare(f.Line, o.Line),
		cmp.Compare(f.Column, o.Column),
		cmp.Compare(f.Object, o.Object),
		cmp.Compare(f.Field, o.Field),
		cmp.Compare(f.ID, o.ID),
	)
}

// addDifferences adds the findings of all differences that apply, and returns the differences that
// apply to every installation. A difference with Requires applies only if one of these selects
// something.
func (r *run) addDifferences(sections []Section) (always []Difference) {
	for _, s := range sections {
		for _, d := range s.Differences {
			switch {
			case len(d.Applies) == 0:
				always = append(always, d)
			case len(d.Requires) == 0 || slices.ContainsFunc(d.Requires,
				func(s Selector) bool { return len(r.match(s)) > 0 }):
				for _, s := range d.Applies {
					r.addMatches(d, r.match(s))
				}
			}
		}
	}
	return always
}

// match is what a selector has selected.
type match struct {
	subject *subject
	path    string
	// name is the variable or flag of a selector of istiod's settings.
	name string
	// other is the object with the same key, of a selector with shared keys.
	other *subject
}

// addMatches adds a finding for each match of a difference. The field is m.name if that is set,
// otherwise its path; m.other is named in the subject.
func (r *run) addMatches(d Difference, matches []match) {
	for _, m := range matches {
		f := newFinding(m.subject, m.path)
		if m.name != "" {
			f.Field = m.name
		}
		f.Level, f.ID, f.Subject, f.Istiod, f.Here, f.Why, f.Do = d.Level, d.ID, d.Where, d.Istiod, d.Here, d.Why, d.Do
		if m.other != nil {
			f.Subject += " (with " + objectName(m.other.document.Key) + ")"
		}
		r.findings = append(r.findings, f)
	}
}

// newFinding returns a finding with only the object and the position of a field. Values of Helm
// have the object "Helm values".
func newFinding(s *subject, path string) Finding {
	full, line, column := s.locate(path)
	if s.document.Key == (config.Key{}) {
		return Finding{Object: "Helm values", Field: full, File: s.document.File, Line: line, Column: column}
	}
	return Finding{
		Object: objectName(s.document.Key), Field: full, File: s.document.File, Line: line, Column: column,
		key: s.document.Key,
	}
}

// objectName returns "Kind name.namespace", or "Kind name" for kinds without namespaces.
func objectName(k config.Key) string { return lint.Finding{Key: k}.Object() }

// match returns the matches of a selector in the installation: first variables and flags of
// istiods, then objects. With a shared expression, these are the objects of matchShared. Otherwise
// they are the fields of objects of its kinds for which the condition holds; a condition that
// cannot be evaluated does not hold. Fields below metadata of pods with an owner are then skipped,
// because the template has them.
func (r *run) match(s Selector) []match {
	var list []match
	for _, i := range r.istiods {
		list = append(list, r.matchIstiod(s, i)...)
	}
	if s.shared != nil {
		return append(list, r.matchShared(s)...)
	}
	for _, x := range r.subjects {
		if !slices.Contains(s.Kinds, x.kind) {
			continue
		}
		for _, path := range s.Fields {
			if x.isOwnedPod() && strings.HasPrefix(path, "metadata.") {
				continue // the template has the same
			}
			for _, f := range selectFields(x.root, path) {
				if r.holds(s.when, x, f) {
					list = append(list, match{subject: x, path: f.path})
				}
			}
		}
	}
	return list
}

// matchShared returns the objects of the selector's kinds that share a key with another one, each
// with the first such object. Keys with a value are shared only by objects with another value.
func (r *run) matchShared(s Selector) []match {
	type holder struct {
		subject *subject
		value   string
	}
	holders := map[string][]holder{}
	keys := map[*subject][]string{}
	var subjects []*subject
	for _, x := range r.subjects {
		if slices.Contains(s.Kinds, x.kind) {
			subjects = append(subjects, x)
			keys[x] = r.keysOf(s.shared, x)
			for _, k := range keys[x] {
				key, value, _ := strings.Cut(k, "=")
				holders[key] = append(holders[key], holder{x, value})
			}
		}
	}
	var list []match
	for _, x := range subjects {
		for _, k := range keys[x] {
			key, value, paired := strings.Cut(k, "=")
			at := slices.IndexFunc(holders[key],
				func(h holder) bool { return h.subject != x && (!paired || h.value != value) })
			if at >= 0 {
				list = append(list, match{subject: x, path: s.Fields[0], other: holders[key][at].subject})
				break
			}
		}
	}
	return list
}
