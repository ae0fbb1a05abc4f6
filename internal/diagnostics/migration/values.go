package migration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/manifests/helmvalues"
)

// istiodChart is the chart whose values configure istiod.
const istiodChart = "istiod"

// injectorConfigMap begins the name of the ConfigMap with the values that injection uses.
const injectorConfigMap = "istio-sidecar-injector"

// Values are the Helm values of an installation.
type Values struct {
	// Chart is the chart that they are for: base, istiod, gateway or cni.
	Chart string
	lint.File
}

// valuesFile is a decoded file with values.
type valuesFile struct {
	chart    string
	values   map[string]any
	document lint.Document
}

// readValues decodes files with values. It returns an error that names the file if a file is
// malformed or its chart is unknown.
func readValues(list []Values) ([]valuesFile, error) {
	var files []valuesFile
	for _, v := range list {
		if !slices.Contains(helmvalues.Charts(), v.Chart) {
			return nil, fmt.Errorf("%s: chart %q: want %s", v.Name, v.Chart, strings.Join(helmvalues.Charts(), ", "))
		}
		f := valuesFile{chart: v.Chart, document: lint.FileDocument(v.File)}
		if err := yaml.Unmarshal(v.Text, &f.values); err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// meshConfigOf returns the first mesh configuration in the values as YAML, or the given file if
// there is none. Values of other charts are ignored.
func meshConfigOf(files []valuesFile, given lint.File) (lint.File, error) {
	for _, f := range files {
		if m, ok := f.values["meshConfig"].(map[string]any); ok && f.chart == istiodChart && len(m) > 0 {
			text, err := yaml.Marshal(m)
			return lint.File{Name: f.document.File, Text: text}, err
		}
	}
	return given, nil
}

// addValueSubjects appends, for each file with values of the chart istiod, an istiod with the
// environment of env and pilot.env to r.istiods. Its meshConfig, if it has one, is appended to
// r.subjects. It ignores the values of other charts.
func (r *run) addValueSubjects(files []valuesFile) {
	for _, f := range files {
		if f.chart != istiodChart {
			continue
		}
		if m, ok := f.values["meshConfig"].(map[string]any); ok {
			r.subjects = append(r.subjects,
				&subject{kind: "MeshConfig", document: f.document, root: m, within: "meshConfig"})
		}
		x := &istiod{subject: &subject{kind: "Values", document: f.document, root: f.values}}
		for _, v := range append(selectFields(f.values, "env[*]"), selectFields(f.values, "pilot.env[*]")...) {
			x.environment = append(x.environment, setting{v.key, fmt.Sprint(v.value), v.path})
		}
		r.istiods = append(r.istiods, x)
	}
}

// addValues adds a finding for each value that the charts of this control plane reject or do not
// know. The finding is at the value below pilot, if it is there. It returns the error of
// helmvalues.Check.
func (r *run) addValues(files []valuesFile) error {
	for _, f := range files {
		list, err := helmvalues.Check(f.chart, f.values)
		if err != nil {
			return err
		}
		s := &subject{document: f.document}
		for _, v := range list {
			path := v.Name
			// Istio's former place of all values
			if nested := "pilot." + path; len(selectFields(f.values, nested)) > 0 {
				path = nested
			}
			r.findings = append(r.findings, valueFinding(newFinding(s, path), f.chart, v))
		}
	}
	return nil
}

// addInjectorValues adds a finding for each value in the ConfigMaps of injectors that the chart
// istiod rejects. Values that the chart does not know are no findings here, and values that cannot
// be parsed are skipped. It returns the error of helmvalues.Check.
func (r *run) addInjectorValues() error {
	for _, s := range r.subjects {
		text, _ := first(s.root, "data.values").(string)
		if s.kind != string(api.ConfigMap) || !strings.HasPrefix(s.document.Key.Name, injectorConfigMap) || text == "" {
			continue
		}
		var values map[string]any
		if json.Unmarshal([]byte(text), &values) != nil {
			continue
		}
		list, err := helmvalues.Check(istiodChart, values)
		if err != nil {
			return err
		}
		for _, v := range list {
			if v.Reason != "" {
				f := valueFinding(newFinding(s, "data.values"), istiodChart, v)
				f.Field = "data.values: " + v.Name
				r.findings = append(r.findings, f)
			}
		}
	}
	return nil
}

// valueFinding returns f as the finding of a value. An unknown value has advice with similar names.
func valueFinding(f Finding, chart string, v helmvalues.Finding) Finding {
	f.Level, f.ID, f.Field, f.Subject = NotServed, "helm-value", v.Name, "value of the chart "+chart
	f.Here, f.Do = "is rejected: "+v.Reason, "remove the value"
	if v.Reason == "" {
		f.Here = "is unknown, and rejected"
		if len(v.Similar) > 0 {
			f.Do += ", or use one of " + strings.Join(v.Similar, ", ")
		}
	}
	return f
}
