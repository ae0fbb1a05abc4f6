package cli

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// sarifLog is a log of the Static Analysis Results Interchange Format 2.1.0, which code hosts show
// beside the lines of a change. It has the parts that are needed for that.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID                   string    `json:"id"`
	Name                 string    `json:"name"`
	ShortDescription     sarifText `json:"shortDescription"`
	FullDescription      sarifText `json:"fullDescription"`
	Help                 sarifText `json:"help"`
	HelpURI              string    `json:"helpUri,omitempty"`
	DefaultConfiguration struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifLocation struct {
	PhysicalLocation sarifPhysical  `json:"physicalLocation"`
	LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	ArtifactLocation struct {
		URI string `json:"uri"`
	} `json:"artifactLocation"`
	Region *sarifRegion `json:"region,omitempty"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
	Kind               string `json:"kind"`
}

// sarifReport returns the SARIF log with a result for each finding, in the order of list. It has a
// rule for each code that occurs. A finding without a file has no location; its object is only in
// the message.
func sarifReport(list []lint.Finding) sarifLog {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "pilotctl", Rules: []sarifRule{}}
	for _, e := range code.All() {
		if slices.ContainsFunc(list, func(f lint.Finding) bool { return f.Code == e.Code }) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, newSarifRule(e))
		}
	}
	for _, f := range list {
		index := slices.IndexFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == string(f.Code) })
		result := sarifResult{RuleID: string(f.Code), RuleIndex: index, Level: sarifLevel(f.Level),
			Message: sarifText{f.Object() + ": " + fieldMessage(f)}}
		if f.File != "" {
			var l sarifLocation
			l.PhysicalLocation.ArtifactLocation.URI = strings.TrimPrefix(f.File, "./")
			if f.Line > 0 {
				l.PhysicalLocation.Region = &sarifRegion{f.Line, f.Column}
			}
			if name := f.Object(); name != "" {
				l.LogicalLocations = []sarifLogical{{FullyQualifiedName: name, Kind: "resource"}}
			}
			result.Locations = []sarifLocation{l}
		}
		run.Results = append(run.Results, result)
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// newSarifRule returns the SARIF rule of a code.
func newSarifRule(e code.Entry) sarifRule {
	r := sarifRule{
		ID: string(e.Code), Name: e.Name, ShortDescription: sarifText{e.Name}, FullDescription: sarifText{e.Meaning},
		Help:    sarifText{e.Advice},
		HelpURI: documentationURL(e.Code),
	}
	r.DefaultConfiguration.Level = sarifLevel(e.Level)
	return r
}

// sarifLevel returns the name of a level in SARIF: "error", "warning", or "note" for all others.
func sarifLevel(l code.Level) string {
	switch l {
	case code.Error:
		return "error"
	case code.Warning:
		return "warning"
	default:
		return "note"
	}
}
