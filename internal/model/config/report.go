package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// path is the position of a value inside an object, in the API's JSON names.
type path = *field.Path

// report collects the Problems of one object. The checks are its methods. Each check takes the path
// of the value that it checks.
type report struct {
	object   *Config
	problems []Problem
}

// errorf adds an Error with a formatted reason.
func (r *report) errorf(at path, format string, args ...any) {
	r.addProblem(Error, at, fmt.Sprintf(format, args...))
}

// warnf adds a Warning with a formatted reason.
func (r *report) warnf(at path, format string, args ...any) {
	r.addProblem(Warning, at, fmt.Sprintf(format, args...))
}

// warnCode adds a Warning with a message code.
func (r *report) warnCode(x code.Code, at path, format string, args ...any) {
	r.warnf(at, format, args...)
	r.problems[len(r.problems)-1].Code = x
}

// addProblem adds a Problem of the object at a path, with the object's key and origin.
func (r *report) addProblem(s Severity, at path, reason string) {
	r.problems = append(r.problems, Problem{
		Key: r.object.Key, Field: at.String(), Reason: reason, Severity: s, Origin: r.object.Origin,
	})
}

// addFault adds an Error with the reason, unless it is empty.
func (r *report) addFault(at path, reason string) {
	if reason != "" {
		r.addProblem(Error, at, reason)
	}
}

// requireValue adds an Error if value is empty.
func (r *report) requireValue(at path, value string) {
	if value == "" {
		r.errorf(at, "is required")
	}
}

// checkMaxItems adds an Error if a list of this length is longer than the API's limit.
func (r *report) checkMaxItems(at path, length, limit int) {
	if length > limit {
		r.errorf(at, "has %d items, at most %d are allowed", length, limit)
	}
}

// checkMeta adds Errors for a name that is missing or not a DNS subdomain, and for a namespace that
// is not a DNS label. It adds Warnings for invalid labels and retired annotations. The namespace of
// a cluster-scoped object is not checked.
func (r *report) checkMeta() {
	c, at := r.object, field.NewPath("metadata")
	if c.Name == "" {
		r.errorf(at.Child("name"), "is required")
	}
	if c.Name != "" && !isPlain(c.Name) {
		for _, reason := range validation.IsDNS1123Subdomain(c.Name) {
			r.errorf(at.Child("name"), "%q: %s", c.Name, withoutExample(reason))
		}
	}
	if info, _ := api.Info(c.Kind); !info.ClusterScoped && (!isPlain(c.Namespace) || strings.Contains(c.Namespace, ".")) {
		for _, reason := range validation.IsDNS1123Label(c.Namespace) {
			r.errorf(at.Child("namespace"), "%q: %s", c.Namespace, withoutExample(reason))
		}
	}
	// An object with such labels is usable nevertheless, because few selectors use them.
	r.warnAboutEntries("labels", c.Labels, labelFault)
	r.warnAboutEntries("annotations", c.Annotations, func(key, _ string) string {
		if !strings.Contains(key, "istio.io/") {
			return "" // most annotations of most objects
		}
		if a, ok := retired.AnnotationOf(key); ok {
			return a.Reason()
		}
		return ""
	})
}

// warnAboutEntries adds a Warning for each entry of a map of the metadata at which fault returns a
// reason, sorted by key. name is the name of the map.
func (r *report) warnAboutEntries(name string, entries map[string]string, fault func(key, value string) string) {
	var faulty []string
	for key, value := range entries {
		if fault(key, value) != "" {
			faulty = append(faulty, key)
		}
	}
	slices.Sort(faulty)
	for _, key := range faulty {
		r.warnf(field.NewPath("metadata", name).Key(key), "%s", fault(key, entries[key]))
	}
}

// sortedKeys returns the keys of a map in ascending order, so that reports do not depend on the
// iteration order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
