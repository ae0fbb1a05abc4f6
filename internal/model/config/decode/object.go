package decode

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// defaultNamespace is where a namespaced object without a namespace belongs, as kubectl has it by default.
const defaultNamespace = "default"

// Decoded is what became of one object.
type Decoded struct {
	// Key names the object; it is zero if that could not be read for certain.
	Key config.Key
	// Config is the object; nil if it has an Error, or is of a kind that is not read.
	Config *config.Config
	// Problems have their Key set where it is known, or can be guessed for a person to read.
	Problems []config.Problem
	// Foreign reports whether the object is of a kind that is not read here: another program's, or
	// one that Istio has retired.
	Foreign bool
	// Document and Line say where the object was in its file, both from 1; 0 for one that was in none.
	Document, Line int
}

// Unreadable says that not even the name of the object is known.
func (d Decoded) Unreadable() bool { return d.Key == (config.Key{}) && !d.Foreign }

// Object reads and validates one object from JSON. Its origin is left for the caller to know.
func Object(body []byte) Decoded { return object(body, false) }

// Stored reads an object as Object does, from the JSON of an API server that has checked it against its own definition of the
// kind. A field that is unknown here is one of a newer definition: it is a Warning, and the rest of the object counts.
func Stored(body []byte) Decoded { return object(body, true) }

func object(body []byte, stored bool) Decoded {
	var head struct {
		APIVersion any `json:"apiVersion"`
		Kind       any `json:"kind"`
		Metadata   struct {
			Name      any `json:"name"`
			Namespace any `json:"namespace"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &head); err != nil {
		return failed(config.Key{}, "", "is not an object with apiVersion, kind and metadata")
	}
	apiVersion, _ := head.APIVersion.(string)
	kind, _ := head.Kind.(string)
	name, _ := head.Metadata.Name.(string)
	namespace, _ := head.Metadata.Namespace.(string)
	guess := config.Key{Kind: api.Kind(kind), Namespace: namespace, Name: name}
	info, problem, foreign := lookUp(apiVersion, kind)
	if foreign {
		problem.Key = guess
		return Decoded{Problems: []config.Problem{problem}, Foreign: true}
	}
	if info.Kind == "" {
		return failed(guess, problem.Field, problem.Reason)
	}
	if name == "" {
		return failed(guess, "metadata.name", "is required")
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
		d.fail(problem.Field, problem.Reason)
	case info.Istio():
		d.istio(info, body, stored)
	default:
		d.kubernetes(info, body)
	}
	d.validate()
	return d
}

// failed is an object that is not known by name; guess is for people.
func failed(guess config.Key, field, reason string) Decoded {
	return Decoded{Problems: []config.Problem{{Key: guess, Field: field, Reason: reason, Severity: config.Error}}}
}

func (d *Decoded) fail(field, reason string) { d.note(config.Error, field, reason) }

func (d *Decoded) note(severity config.Severity, field, reason string) {
	d.Problems = append(d.Problems, config.Problem{Key: d.Key, Field: field, Reason: reason, Severity: severity})
}

// bad says that the object has an Error.
func (d *Decoded) bad() bool {
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			return true
		}
	}
	return false
}

// envelope is an object of an Istio kind. Of its status little is ours to read; see Status.
type envelope struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       json.RawMessage   `json:"spec"`
	Status     json.RawMessage   `json:"status"`
}

func (d *Decoded) istio(info api.KindInfo, body []byte, stored bool) {
	var e envelope
	strict, err := kjson.UnmarshalStrict(body, &e)
	d.strictFaults(strict, func(field string) config.Severity {
		if stored || strings.HasPrefix(field, "metadata.") {
			return config.Warning
		}
		return config.Error
	})
	if err != nil {
		d.hardFault(err)
	}
	spec, problems := readSpec(info, e.Spec, stored)
	for _, p := range problems {
		d.note(p.Severity, p.Field, p.Reason)
	}
	if !d.bad() {
		d.configure(&e.Metadata, spec, Status(info.Kind, e.Status))
	}
}

// configure makes the Config of an object that was read.
func (d *Decoded) configure(meta metav1.Object, spec any, status *config.Status) {
	c, err := config.New(config.Meta{
		Key: d.Key, Labels: meta.GetLabels(), Annotations: meta.GetAnnotations(), Created: meta.GetCreationTimestamp().Time,
		ResourceVersion: meta.GetResourceVersion(), Generation: meta.GetGeneration(), Status: status,
	}, spec)
	if err != nil {
		d.fail("", err.Error())
		return
	}
	d.Config = c
}

// validate checks the finished object, and drops it if it must not be used.
func (d *Decoded) validate() {
	if d.Config == nil {
		return
	}
	d.Problems = append(d.Problems, config.Validate(d.Config)...)
	if d.bad() {
		d.Config = nil
	}
}
