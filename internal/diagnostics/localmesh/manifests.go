package localmesh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// manifests is what the user's files contain.
type manifests struct {
	// workloads are the workloads of all Deployments, in the order of the files.
	workloads []WorkloadSpec
	// files are the files for the control plane by their paths, without Deployments.
	files map[string]string
	// services are the Services by NAMESPACE/NAME.
	services map[string]*service
	// problems are the mistakes in objects that this package reads. The control plane reports those
	// in other objects.
	problems []string
	// broken are the files with a document that cannot be read: what they contained before still
	// counts.
	broken map[string]bool
}

// document is a document of a file.
type document struct {
	text string
	metav1.TypeMeta
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// namespace returns the namespace of the object, "default" if it has none.
func (d document) namespace() string {
	if d.Metadata.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return d.Metadata.Namespace
}

// title returns the kind, namespace and name of the object.
func (d document) title() string {
	return fmt.Sprintf("%s %s/%s", d.Kind, d.namespace(), d.Metadata.Name)
}

// readManifests reads files, and all *.yaml, *.yml and *.json files in directories. It returns an
// error if a path cannot be read. Mistakes in objects are problems. A file's name in the
// configuration is unique for each path.
func readManifests(paths []string) (*manifests, error) {
	m := &manifests{files: map[string]string{}, services: map[string]*service{}, broken: map[string]bool{}}
	for i, path := range paths {
		names, err := manifestFiles(path)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("reading manifests: %w", err)
			}
			rel := filepath.Base(name)
			if within, err := filepath.Rel(path, name); err == nil && within != "." {
				rel = within
			}
			m.addFile(name, filepath.Join(fmt.Sprintf("files-%d", i+1), rel), string(text))
		}
	}
	m.checkNames()
	m.resolveTargetPorts()
	return m, nil
}

// manifestFiles returns the manifests at a path in lexical order. Hidden files and directories are
// skipped. A path that is a file is returned whatever its name.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		list, _, err := decode.ManifestsBelow(path)
		return list, err
	default:
		return []string{path}, nil
	}
}

// addFile adds the objects of a file. target is its path for the control plane. A document that
// cannot be parsed is a problem; it stays in the file, which becomes broken.
func (m *manifests) addFile(path, target, text string) {
	var kept strings.Builder
	for i, part := range splitDocuments(text, decode.IsJSON(path)) {
		d := document{text: part}
		if err := yaml.Unmarshal([]byte(part), &d); err != nil {
			m.addProblem("%s: document %d: %v", path, i+1, err)
			m.broken[path] = true
			kept.WriteString(part)
			continue
		}
		d.text = part
		kept.WriteString(m.addDocument(path, d))
	}
	m.files[target] = kept.String()
}

// addDocument adds an object, and returns its text for the control plane. A Deployment becomes
// workloads and a comment, a Service a placeholder, and another kind with pods a problem and a
// comment. A malformed Service is a problem and keeps its text. A headless Service with a selector
// is a problem, too. The text has as many lines as before, so that the positions of other objects
// stay.
func (m *manifests) addDocument(path string, d document) string {
	switch d.Kind {
	case "Deployment":
		workloads, problems := deploymentWorkloads(path, d)
		m.workloads = append(m.workloads, workloads...)
		for _, p := range problems {
			m.addProblem("%s: %s: %s", path, d.title(), p)
		}
		if workloads == nil && len(problems) > 0 {
			m.broken[path] = true
		}
		return commentOut(d.text)
	case "Service":
		s, err := parseService(d)
		if err != nil {
			m.addProblem("%s: %s: %v", path, d.title(), err)
			return d.text
		}
		if s.selectsHeadless() {
			m.addProblem("%s: %s: spec.clusterIP: None is not supported on one machine: clients find no workload by "+
				"the name of the Service; without clusterIP it gets an address", path, d.title())
		}
		m.services[d.namespace()+"/"+d.Metadata.Name] = s
		return s.placeholder()
	case "Pod", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob":
		m.addProblem("%s: %s: its programs are not run: only those of Deployments are", path, d.title())
		return commentOut(d.text)
	default:
		return d.text
	}
}

// addProblem appends a formatted problem.
func (m *manifests) addProblem(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// checkNames removes workloads whose FullName (NAME.NAMESPACE) an earlier one has, and adds a
// problem for each. The earlier ones stay.
func (m *manifests) checkNames() {
	first := map[string]WorkloadSpec{}
	m.workloads = slices.DeleteFunc(m.workloads, func(w WorkloadSpec) bool {
		other, taken := first[w.FullName()]
		if taken {
			m.addProblem("%s: Deployment %s/%s: its workload %s exists already (%s)", w.file, w.Namespace, w.deployment,
				w.FullName(), other.file)
			return true
		}
		first[w.FullName()] = w
		return false
	})
}

// splitDocuments returns the documents of a file, each with the separator line before it. A JSON
// file, and an empty one, is one document. A separator on the first line begins the first document.
func splitDocuments(text string, json bool) []string {
	if json {
		return []string{text}
	}
	var parts []string
	var part strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimRight(line, " \t\r\n"); (trimmed == "---" || strings.HasPrefix(line, "--- ")) &&
			part.Len() > 0 {
			parts = append(parts, part.String())
			part.Reset()
		}
		part.WriteString(line)
	}
	return append(parts, part.String())
}

// decodeStrictly decodes a document. An error names the field, also for an unknown one. All unknown
// fields are in the error.
func decodeStrictly(text string, into any) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := kubejson.UnmarshalStrict(data, into)
	return errors.Join(append(unknown, err)...)
}

// separator returns the separator line at the beginning of a document, "" if it has none. The
// separator has no content of its line.
func separator(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(line, "---") {
		return "---\n"
	}
	return ""
}

// commentOut returns a document as comments. The separator line before it stays.
func commentOut(text string) string {
	head := separator(text)
	return head + strings.Repeat("#\n", strings.Count(text, "\n")-strings.Count(head, "\n")) + unfinished(text)
}

// unfinished returns a comment for the last line of a text if that does not end with a newline. It
// returns "" for an empty text.
func unfinished(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return ""
	}
	return "#\n"
}
