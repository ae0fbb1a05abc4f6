package decode

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// defaultNamespace is the namespace of a namespaced object that does not name one, as in kubectl by
// default.
const defaultNamespace = "default"

// Decoded is the result of decoding one object.
type Decoded struct {
	// Key names the object. It is zero if the name could not be read with certainty.
	Key config.Key
	// Config is the object. It is nil if the object has an Error or is of a kind that is not read.
	Config *config.Config
	// Partial is the object without the values that cannot be decoded, or with values that are
	// invalid, if the object has an Error. It is for finding more mistakes and must not be used to
	// generate configuration. It is nil if nothing of the object can be decoded.
	Partial *config.Config
	// Problems have their Key set if it is known or can be guessed for display.
	Problems []config.Problem
	// Foreign is set if the object is of a kind that is not read here: another program's, or a kind
	// that Istio has retired.
	Foreign bool
	// Document and Line are the position of the object in its file, both from 1. They are 0 if the
	// object was not read from a file.
	Document, Line int
	// Within is the path of the object in the document: "items[2]" in a list, otherwise "".
	Within string
}

// IsUnreadable reports whether the name of the object could not be read. It returns false for a
// foreign object.
func (d Decoded) IsUnreadable() bool { return d.Key == (config.Key{}) && !d.Foreign }

// Object decodes and validates one object from JSON. The result has no origin; the caller sets it.
func Object(body []byte) Decoded { return parseObject(body).decode(false) }

// Stored decodes and validates an object like Object, from the JSON of an API server that has
// validated it against its own definition of the kind. An unknown field belongs to a newer
// definition: it is a Warning, and the rest of the object is used.
func Stored(body []byte) Decoded { return parseObject(body).decode(true) }

// object is an object in JSON. Its head has the fields that determine how the body is decoded.
type object struct {
	body []byte
	head struct {
		APIVersion any `json:"apiVersion"`
		Kind       any `json:"kind"`
		Metadata   struct {
			Name      any `json:"name"`
			Namespace any `json:"namespace"`
		} `json:"metadata"`
		Items json.RawMessage `json:"items"`
	}
	err error // set if body or its metadata is not a JSON object
}

// parseObject parses the head of an object.
func parseObject(body []byte) object {
	o := object{body: body}
	o.err = kjson.UnmarshalCaseSensitivePreserveInts(body, &o.head)
	return o
}

// apiVersion returns the field apiVersion, "" if it is no string.
func (o object) apiVersion() string {
	text, _ := o.head.APIVersion.(string)
	return text
}

// kind returns the field kind, "" if it is no string.
func (o object) kind() string {
	text, _ := o.head.Kind.(string)
	return text
}

// items returns the elements of a list, which is an object with items whose kind ends in "List".
// isList is false for other objects.
func (o object) items() (items []json.RawMessage, isList bool) {
	if !strings.HasSuffix(o.kind(), "List") || json.Unmarshal(o.head.Items, &items) != nil {
		return nil, false
	}
	return items, items != nil
}

// decode decodes and validates the object. With an Error it has no Config, only Partial, if its
// content could be read. Unknown kinds, versions that are not served and missing names are
// Problems; Foreign is set for kinds of other projects and retired ones. Namespaced objects without
// a namespace are in defaultNamespace. stored makes unknown fields Warnings (readSpec).
func (o object) decode(stored bool) Decoded {
	if o.err != nil {
		return failedObject(config.Key{}, "", "is not an object with apiVersion, kind and metadata")
	}
	name, _ := o.head.Metadata.Name.(string)
	namespace, _ := o.head.Metadata.Namespace.(string)
	guess := config.Key{Kind: api.Kind(o.kind()), Namespace: namespace, Name: name}
	info, problem, foreign := lookUp(o.apiVersion(), o.kind())
	if foreign {
		problem.Key = guess
		return Decoded{Problems: []config.Problem{problem}, Foreign: true}
	}
	if info.Kind == "" {
		return failedObject(guess, problem.Field, problem.Reason)
	}
	if name == "" {
		return failedObject(guess, "metadata.name", "is required")
	}
	guess.Kind = info.Kind
	if info.ClusterScoped {
		guess.Namespace = ""
	} else if namespace == "" {
		guess.Namespace = defaultNamespace
	}
	d := Decoded{Key: guess}
	switch {
	case problem.Reason != "": // a version that is not served
		d.addError(problem.Field, problem.Reason)
	case info.Istio():
		d.decodeIstio(info, o.body, stored)
	default:
		d.decodeKubernetes(info, o.body)
	}
	d.validateConfig()
	return d
}

// failedObject returns the result for an object whose name is not known, with one Error about
// field. guess is the Key of the Error, for display.
func failedObject(guess config.Key, field, reason string) Decoded {
	return Decoded{Problems: []config.Problem{{Key: guess, Field: field, Reason: reason, Severity: config.Error}}}
}

// addError adds an Error of the object to d.Problems. field may be empty.
func (d *Decoded) addError(field, reason string) { d.addProblem(config.Error, field, reason) }

// addProblem adds a Problem of the object, with d.Key and without an origin, to d.Problems.
func (d *Decoded) addProblem(severity config.Severity, field, reason string) {
	d.Problems = append(d.Problems, config.Problem{Key: d.Key, Field: field, Reason: reason, Severity: severity})
}

// hasError reports whether the object has an Error.
func (d *Decoded) hasError() bool {
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			return true
		}
	}
	return false
}

// envelope is an object of an Istio kind. Only a small part of its status is read; see Status.
type envelope struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       json.RawMessage   `json:"spec"`
	Status     json.RawMessage   `json:"status"`
}

// decodeIstio decodes an object of an Istio kind and sets its Config or, if it has an Error,
// Partial. An unknown field is an Error, but only a Warning if it is in the metadata or stored is
// set. Partial is set only if a part of the spec could be read.
func (d *Decoded) decodeIstio(info api.KindInfo, body []byte, stored bool) {
	var e envelope
	strict, err := kjson.UnmarshalStrict(body, &e)
	d.addStrictFaults(strict, func(field string) config.Severity {
		if stored || strings.HasPrefix(field, "metadata.") {
			return config.Warning
		}
		return config.Error
	})
	if err != nil {
		d.addHardFault(err)
	}
	spec, partial, problems := readSpec(info, e.Spec, stored)
	for _, p := range problems {
		d.addProblem(p.Severity, p.Field, p.Reason)
	}
	switch {
	case !d.hasError():
		d.setConfig(&e.Metadata, spec, Status(info.Kind, e.Status))
	case partial != nil:
		d.setPartial(&e.Metadata, partial, Status(info.Kind, e.Status))
	case spec != nil && len(e.Spec) > 0: // the metadata is invalid
		d.setPartial(&e.Metadata, &partialSpec{spec: spec}, Status(info.Kind, e.Status))
	}
}

// metaOf returns the metadata of the decoded object, with d.Key as its key and without origin and
// Extension. It shares the maps of labels and annotations with meta.
func (d *Decoded) metaOf(meta metav1.Object, status *config.Status) config.Meta {
	return config.Meta{
		Key:             d.Key,
		Labels:          meta.GetLabels(),
		Annotations:     meta.GetAnnotations(),
		Created:         meta.GetCreationTimestamp().Time,
		ResourceVersion: meta.GetResourceVersion(),
		Generation:      meta.GetGeneration(),
		Status:          status,
	}
}

// setConfig sets d.Config. If the Config cannot be made, it adds an Error.
func (d *Decoded) setConfig(meta metav1.Object, spec any, status *config.Status) {
	c, err := config.New(d.metaOf(meta, status), spec)
	if err != nil {
		d.addError("", err.Error())
		return
	}
	d.Config = c
}

// validateConfig adds the Problems of validation. If d then has an Error, its Config becomes
// Partial. It does nothing without a Config.
func (d *Decoded) validateConfig() {
	if d.Config == nil {
		return
	}
	d.Problems = append(d.Problems, config.Validate(d.Config)...)
	if d.hasError() {
		d.Config, d.Partial = nil, d.Config
	}
}
