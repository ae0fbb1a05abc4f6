package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// object is an object of a file. Kinds that the control plane does not read are included.
type object struct {
	key        config.Key
	apiVersion string
	meta       metav1.ObjectMeta
	body       []byte
	// config is the object as far as it can be read, nil for kinds that the control plane does not
	// read.
	config *config.Config
	// file is the name of the object's file, and document the number of its document there, from 1.
	// within is the path of the object in a list, such as "items[0]", or "". line is its first
	// line.
	file     string
	document int
	within   string
	line     int
}

// origin returns the position of the object in the form of config.Meta.Origin.
func (o *object) origin() string {
	return decode.Origin{File: o.file, Document: o.document, Line: o.line}.String()
}

// configMapData is the part of a ConfigMap with its data.
type configMapData struct {
	Data map[string]string `json:"data"`
}

// decodeAs decodes an object into T as far as possible. Fields that cannot be decoded keep their
// zero value.
func decodeAs[T any](o *object) *T {
	v := new(T)
	_ = json.Unmarshal(o.body, v) // what cannot be read has its zero value
	return v
}

// head is the part that all objects have. Values of wrong types are not read.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
}

// readFile adds the objects of a file, also ones of kinds that the control plane does not read, and
// the Problems of decoding and validation. If a key exists already, addObject decides. The items of
// a list are added in their order. Problems of foreign objects are added only if they are
// Errors. Documents that are no objects are skipped.
func (r *analysisRun) readFile(f File) {
	r.locators[f.Name] = decode.NewLocator(f.Name, f.Text)
	decoded := map[string]decode.Decoded{}
	for _, d := range decode.Manifest(f.Name, f.Text) {
		decoded[fmt.Sprint(d.Document, d.Within)] = d
		for _, p := range d.Problems {
			if !d.Foreign || p.Severity == config.Error {
				r.addProblem(p)
			}
		}
	}
	documents := decode.Documents(f.Name, f.Text)
	for _, n := range slices.Sorted(maps.Keys(documents)) {
		for _, item := range itemsOf(documents[n]) {
			o := newObject(item.body)
			if o == nil {
				continue
			}
			o.file, o.document, o.within = f.Name, n, item.within
			o.line, _ = r.locators[f.Name].Position(n, o.within, "")
			if d, ok := decoded[fmt.Sprint(n, o.within)]; ok {
				if o.config = d.Config; o.config == nil {
					o.config = d.Partial
				}
				if o.config != nil {
					o.key = o.config.Key
				}
			}
			r.addObject(o)
		}
	}
}

// addObject adds an object. If an object with its key exists, that one stays: for an object of a
// file it adds a Problem, and for an object of the cluster nothing.
func (r *analysisRun) addObject(o *object) {
	if first := r.byKey[o.key]; first != nil {
		if r.fromCluster {
			return
		}
		r.addProblem(config.Problem{
			Code: code.DuplicateObject, Key: o.key, Origin: o.origin(), Severity: config.Error,
			Reason: fmt.Sprintf("is also at %s:%d, which is used; this one is not analyzed further",
				first.file, first.line),
		})
		return
	}
	r.byKey[o.key] = o
	r.objects = append(r.objects, o)
}

// item is an object of a document, with its path in the document, such as "items[0]".
type item struct {
	within string
	body   []byte
}

// itemsOf returns the objects of a document in their order: the items of a list, otherwise the
// document with an empty path. An empty list has none.
func itemsOf(body []byte) []item {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil || list.Items == nil || !strings.HasSuffix(list.Kind, "List") {
		return []item{{"", body}}
	}
	out := make([]item, len(list.Items))
	for i, body := range list.Items {
		out[i] = item{fmt.Sprintf("items[%d]", i), body}
	}
	return out
}

// newObject returns an object with its key, or nil if it has no kind or name. The namespace is
// "default" if it has none, and empty for a cluster-scoped kind.
func newObject(body []byte) *object {
	var h head
	_ = json.Unmarshal(body, &h) // what cannot be read has its zero value
	if h.Kind == "" || h.Metadata.Name == "" {
		return nil
	}
	o := &object{apiVersion: h.APIVersion, meta: h.Metadata, body: body}
	o.key = config.Key{Kind: api.Kind(h.Kind), Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
	group, version, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group, version = "", h.APIVersion
	}
	clusterScoped := slices.Contains([]string{
		"CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ClusterRole",
		"ClusterRoleBinding",
		"PersistentVolume", "PriorityClass", "StorageClass",
		"MeshPolicy", "ClusterRbacConfig", // retired kinds
	}, h.Kind)
	if info, known, _ := api.Lookup(group, version, h.Kind); known {
		o.key.Kind, clusterScoped = info.Kind, info.ClusterScoped
	}
	switch {
	case clusterScoped:
		o.key.Namespace = ""
	case o.key.Namespace == "":
		o.key.Namespace = "default"
	}
	o.meta.Namespace = o.key.Namespace
	return o
}

// ofKind returns the objects of any of the kinds that were read, in the order of the files. Pods of
// templates (r.templates) are not among them. The caller may modify the list.
func (r *analysisRun) ofKind(kinds ...api.Kind) []*object {
	var list []*object
	for _, o := range r.objects {
		if slices.Contains(kinds, o.key.Kind) {
			list = append(list, o)
		}
	}
	return list
}
