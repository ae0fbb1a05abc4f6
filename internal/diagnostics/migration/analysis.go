package migration

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// levelOf returns the level of a finding of the analysis with a code, and false for codes that do
// not concern the support of an object: the same mistake would exist with istiod.
func levelOf(c code.Code) (Level, bool) {
	switch c {
	case code.SchemaValidationError, code.FieldWithoutEffect, code.InvalidMeshSetting, code.RouteNotConverted,
		code.PatchFailed:
		return NotServed, true
	case code.SchemaWarning:
		return Different, true
	default:
		return "", false
	}
}

// addAnalysis adds the findings of the analysis that concern the support of objects, except those
// about a field that a difference is about. A finding without an object is about the mesh
// configuration, if that has its field.
func (r *run) addAnalysis(list []lint.Finding) {
	known := slices.Clone(r.findings)
	for _, f := range list {
		level, ok := levelOf(f.Code)
		if !ok || slices.ContainsFunc(known, func(k Finding) bool { return isAbout(k, f) }) {
			continue
		}
		e, _ := code.Find(f.Code)
		x := Finding{Object: f.Object(), Field: f.Field, File: f.File, Line: f.Line, Column: f.Column, key: f.Key}
		if s := r.meshConfig(); s != nil && x.Object == "" && len(selectFields(s.root, f.Field)) > 0 {
			x = newFinding(s, f.Field)
		}
		x.Level, x.ID, x.Subject, x.Here, x.Do = level, string(f.Code), e.Name, f.Message, adviceOf(e.Advice)
		r.findings = append(r.findings, x)
	}
}

// addRetiredAnnotations adds a finding for each retired annotation of templates of pods, which the
// analysis does not read.
func (r *run) addRetiredAnnotations() {
	for _, s := range r.subjects {
		if s.kind != string(api.Pod) || s.within == "" {
			continue
		}
		for _, f := range selectFields(s.root, "metadata.annotations[*]") {
			a, ok := retired.AnnotationOf(f.key)
			if !ok {
				continue
			}
			x := newFinding(s, f.path)
			x.Level = Information
			x.ID = "retired-annotation"
			x.Subject = "annotation"
			x.Here = a.Reason()
			x.Do = "remove the annotation"
			r.findings = append(r.findings, x)
		}
	}
}

// adviceOf returns an advice as the end of a sentence: with its first letter in lower case and
// without its full stop.
func adviceOf(advice string) string {
	advice = strings.TrimSuffix(advice, ".")
	if advice == "" {
		return ""
	}
	return strings.ToLower(advice[:1]) + advice[1:]
}

// isAbout reports whether a finding of a difference is about the same field as one of the analysis,
// in the same object, or in the same file if the latter has no object. It returns false if k has no
// field.
func isAbout(k Finding, f lint.Finding) bool {
	return k.Field != "" && k.Field == f.Field && (k.key == f.Key || f.File == k.File && f.Object() == "")
}
