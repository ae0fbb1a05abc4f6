package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// File is one file with manifests. The extension of Name selects the format, as in
// internal/model/config/decode.
type File struct {
	Name string
	Text []byte
}

// Options are the inputs of Analyze.
type Options struct {
	Files []File
	// Cluster has the objects of a cluster. Objects of Files take the place of those with the same
	// key.
	Cluster []File
	// MeshConfig and MeshNetworks are YAML. If a Text is nil, the one in the ConfigMap "istio" of
	// the files applies, or in that of a revision, or the defaults.
	MeshConfig, MeshNetworks File
	// Suppressions remove findings, as does the annotation of an object.
	Suppressions []Suppression
	// Now is the time at which certificates must be valid.
	Now time.Time
}

// Result is the result of Analyze.
type Result struct {
	// Findings are sorted by file, position and code.
	Findings []Finding
	// Objects is the number of objects of Files and Cluster that were analyzed.
	Objects int
	// Documents are these objects as they are written, in the order of the files.
	Documents []Document
}

// analysisRun is the state of one Analyze.
type analysisRun struct {
	options  Options
	recovery *recovery.Recorder
	objects  []*object
	byKey    map[config.Key]*object
	locators map[string]locator
	// templates are the pods of Deployments and similar objects.
	templates []*config.Config
	snapshot  *snapshot.Snapshot
	problems  []config.Problem
	// fromCluster is set while objects of the cluster are read, which may exist in files too.
	fromCluster bool
}

// Analyze returns the findings of all objects in Files and Cluster. It returns an error if
// MeshConfig or MeshNetworks cannot be parsed. A panic of one check is a finding with the code
// InternalError; the other checks run.
func Analyze(o Options) (Result, error) {
	r := &analysisRun{
		options: o, byKey: map[config.Key]*object{}, locators: map[string]locator{},
		recovery: recovery.New(recovery.Options{Now: func() time.Time { return o.Now }}),
	}
	for _, f := range o.Files {
		r.readFile(f)
	}
	r.fromCluster = true
	for _, f := range o.Cluster {
		r.readFile(f)
	}
	settings, err := r.readSettings()
	if err != nil {
		return Result{}, err
	}
	r.readTemplates()
	r.buildSnapshot(settings)
	for _, c := range Checks() {
		err := r.recovery.Call("analysis", func() error { c.run(r); return nil })
		if err != nil {
			r.addProblem(config.Problem{
				Code: code.InternalError, Severity: config.Error, Reason: fmt.Sprintf("check %s: %v", c.Name, err),
			})
		}
	}
	return Result{Findings: r.findings(), Objects: len(r.objects), Documents: r.documents()}, nil
}

// Validate returns the findings of decoding and validation, without references between objects. It
// reads only files, no cluster.
func Validate(files []File) Result {
	r := &analysisRun{options: Options{Files: files}, byKey: map[config.Key]*object{}, locators: map[string]locator{}}
	for _, f := range files {
		r.readFile(f)
	}
	return Result{Findings: r.findings(), Objects: len(r.objects), Documents: r.documents()}
}

// readSettings returns the mesh configuration and networks. For each, a file of the Options
// precedes the ConfigMap of settingsObject; without both, the defaults apply. It adds Problems for
// fields without effect. It returns an error, with the name of the file, if a text is malformed.
func (r *analysisRun) readSettings() (*mesh.Settings, error) {
	meshText, networksText := r.options.MeshConfig, r.options.MeshNetworks
	if o := r.settingsObject(); o != nil {
		data := decodeAs[configMapData](o).Data
		if meshText.Text == nil {
			meshText = File{Name: o.file, Text: []byte(data["mesh"])}
		}
		if networksText.Text == nil {
			networksText = File{Name: o.file, Text: []byte(data["meshNetworks"])}
		}
	}
	m, err := mesh.ParseMeshConfig(meshText.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", meshText.Name, err)
	}
	n, err := mesh.ParseMeshNetworks(networksText.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", networksText.Name, err)
	}
	for _, p := range mesh.MeshConfigWarnings(meshText.Text) {
		p.Origin = meshText.Name
		r.addProblem(p)
	}
	return &mesh.Settings{Mesh: m, Networks: n}, nil
}

// settingsObject returns the ConfigMap with the mesh configuration: "istio" in istio-system,
// otherwise the first one with the key mesh whose name is "istio" or begins with "istio-". It
// returns nil if there is none.
func (r *analysisRun) settingsObject() *object {
	if o := r.byKey[config.Key{Kind: api.ConfigMap, Namespace: "istio-system", Name: "istio"}]; o != nil {
		return o
	}
	for _, o := range r.ofKind(api.ConfigMap) {
		if o.key.Name != "istio" && !strings.HasPrefix(o.key.Name, "istio-") {
			continue
		}
		if decodeAs[configMapData](o).Data["mesh"] != "" {
			return o
		}
	}
	return nil
}

// addProblem appends a Problem.
func (r *analysisRun) addProblem(p config.Problem) { r.problems = append(r.problems, p) }

// report appends a Problem for a field of an object. Its finding has the level of the code x.
func (r *analysisRun) report(x code.Code, o *object, field, format string, args ...any) {
	r.addProblem(config.Problem{
		Code: x, Key: o.key, Origin: o.origin(), Field: field, Reason: fmt.Sprintf(format, args...),
		Severity: config.Warning,
	})
}

// findings converts all Problems to findings: with their positions, with one for the other object
// of a conflict, without suppressed ones and duplicates, sorted. Conflicts that the other object
// reports itself are not mirrored.
func (r *analysisRun) findings() []Finding {
	list := map[Finding]bool{}
	conflicts := map[Finding]bool{}
	for _, p := range r.problems {
		f := r.newFinding(p)
		if r.isSuppressed(f) {
			continue
		}
		list[f] = true
		if other := r.byKey[p.Conflict]; other != nil {
			mirrored := config.Problem{
				Code: p.Code, Key: other.key, Origin: other.origin(), Field: rootField(p.Field), Severity: p.Severity,
				Reason: fmt.Sprintf("conflicts with %s: %s", p.Key, p.Reason),
			}
			conflicts[r.newFinding(mirrored)] = true
		}
	}
	for f := range conflicts {
		named := func(o Finding) bool { return o.Code == f.Code && o.Key == f.Key }
		if !r.isSuppressed(f) && !slices.ContainsFunc(slices.Collect(maps.Keys(list)), named) {
			list[f] = true
		}
	}
	return withoutRepetitions(slices.SortedFunc(maps.Keys(list), Finding.Compare))
}

// withoutRepetitions removes findings about one conflict of a selector or server that both a
// control plane and a check of this package report. These have a code, object and field that an
// earlier finding has. Findings with other codes stay. The list is modified.
func withoutRepetitions(list []Finding) []Finding {
	type subject struct {
		code  code.Code
		key   config.Key
		field string
	}
	seen := map[subject]bool{}
	return slices.DeleteFunc(list, func(f Finding) bool {
		switch f.Code {
		case code.ConflictingSidecarWorkloadSelectors,
			code.MultipleSidecarsWithoutWorkloadSelectors,
			code.ConflictingGateways,
			code.ConflictingTelemetryWorkloadSelectors,
			code.MultipleTelemetriesWithoutWorkloadSelectors:
		default:
			return false
		}
		at := subject{f.Code, f.Key, f.Field}
		repeated := seen[at]
		seen[at] = true
		return repeated
	})
}
