package mesh

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// defaultNamespace is where an object goes that names none, as kubectl does it.
const defaultNamespace = "default"

// Rules is the directory that the control plane reads, kept as kubectl would keep a cluster: an object is replaced by
// one of the same kind and name. Not for concurrent use.
//
// Objects of one namespace and name share a file (the DestinationRule and the VirtualService of reviews, say), which is
// renamed into place: what is applied to one host together is seen together.
type Rules struct {
	dir     string // what is watched
	staging string // beside it, on the same file system
	files   map[string][]object
}

type object struct {
	kind, namespace, name string
	text                  []byte
}

func (o object) file() string { return o.namespace + "." + o.name + ".yaml" }

// newRules makes dir, with the manifests in it unless they are nil, and staging.
func newRules(dir, staging string, manifests fs.FS) (*Rules, error) {
	r := &Rules{dir: filepath.Join(dir, "networking"), staging: staging, files: map[string][]object{}}
	for _, d := range []string{r.dir, r.staging} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if manifests == nil {
		return r, nil
	}
	if err := os.CopyFS(filepath.Join(dir, "platform"), manifests); err != nil {
		return nil, fmt.Errorf("copying the manifests: %w", err)
	}
	return r, nil
}

// Apply adds or replaces every object of a YAML text.
func (r *Rules) Apply(text string) error {
	docs, err := splitDocuments([]byte(text))
	if err != nil {
		return fmt.Errorf("applying rules: %w", err)
	}
	var touched []string
	for i, doc := range docs {
		o, err := parseObject(doc)
		if err != nil {
			return fmt.Errorf("applying rules, document %d: %w", i+1, err)
		}
		r.put(o)
		touched = append(touched, o.file())
	}
	return r.write(touched)
}

// Delete removes an object of the default namespace. One that is not there is an error.
func (r *Rules) Delete(kind, name string) error {
	file := object{namespace: defaultNamespace, name: name}.file()
	for i, o := range r.files[file] {
		if o.kind == kind {
			r.files[file] = append(r.files[file][:i:i], r.files[file][i+1:]...)
			return r.write([]string{file})
		}
	}
	return fmt.Errorf("deleting %s %s: there is none", kind, name)
}

// Clear removes all objects.
func (r *Rules) Clear() error {
	var touched []string
	for file := range r.files {
		r.files[file] = nil
		touched = append(touched, file)
	}
	return r.write(touched)
}

func (r *Rules) put(o object) {
	file := o.file()
	for i, old := range r.files[file] {
		if old.kind == o.kind {
			r.files[file][i] = o
			return
		}
	}
	r.files[file] = append(r.files[file], o)
}

// write brings files up to date, each once, in order of first mention.
func (r *Rules) write(files []string) error {
	done := map[string]bool{}
	for _, file := range files {
		if done[file] {
			continue
		}
		done[file] = true
		if err := r.writeFile(file); err != nil {
			return fmt.Errorf("writing rules: %w", err)
		}
	}
	return nil
}

func (r *Rules) writeFile(file string) error {
	target := filepath.Join(r.dir, file)
	if len(r.files[file]) == 0 {
		delete(r.files, file)
		return os.Remove(target)
	}
	var text bytes.Buffer
	for i, o := range r.files[file] {
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(o.text)
	}
	staged := filepath.Join(r.staging, file)
	if err := os.WriteFile(staged, text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(staged, target)
}

// parseObject reads one document, giving it a namespace if it has none.
func parseObject(doc []byte) (object, error) {
	var content struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]any `json:"metadata"`
		Spec            any            `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(doc, &content); err != nil {
		return object{}, err
	}
	o := object{kind: content.Kind, namespace: defaultNamespace}
	o.name, _ = content.Metadata["name"].(string)
	if o.kind == "" || o.name == "" || strings.ContainsRune(o.name, '/') {
		return object{}, fmt.Errorf("it needs a kind and a name, has %q and %q", o.kind, o.name)
	}
	if ns, _ := content.Metadata["namespace"].(string); ns != "" {
		o.namespace = ns
	}
	content.Metadata["namespace"] = o.namespace
	var err error
	o.text, err = yaml.Marshal(content)
	return o, err
}
