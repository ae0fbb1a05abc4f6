package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// definitionKind is the kind CustomResourceDefinition. It is watched, but its objects are not sent.
var definitionKind = api.KindInfo{
	Kind:          "CustomResourceDefinition",
	Group:         "apiextensions.k8s.io",
	Plural:        "customresourcedefinitions",
	Versions:      []string{"v1"},
	ClusterScoped: true,
}

// definition identifies a CustomResourceDefinition and the version of the kind that is read. A
// deleted and recreated definition differs by its UID.
type definition struct{ version, uid string }

// definitions is the store of the reflector for CustomResourceDefinitions.
type definitions struct {
	*kindStore
	// wanted are the custom kinds to read, by the name of their definition
	// ("gateways.networking.istio.io").
	wanted map[string]api.KindInfo
	// changed is called for each change of a wanted kind's definition, with false if it was
	// deleted. It is called by one goroutine at a time.
	changed func(kind api.KindInfo, d definition, there bool)

	known map[string]definition
}

var (
	_ cache.ReflectorStore    = (*definitions)(nil)
	_ cache.TransformingStore = (*definitions)(nil)
)

// newDefinitions returns definitions that want the custom kinds among kinds, and know none of them
// yet. changed is called when one is added, changed or removed.
func newDefinitions(of *kindStore, kinds []api.KindInfo, changed func(api.KindInfo, definition, bool)) *definitions {
	d := &definitions{
		kindStore: of,
		wanted:    map[string]api.KindInfo{},
		changed:   changed,
		known:     map[string]definition{},
	}
	for _, k := range kinds {
		if k.Custom {
			d.wanted[k.Plural+"."+k.Group] = k
		}
	}
	return d
}

// Transformer returns a function that drops the schemas of definitions of unwanted kinds on
// arrival, because they are large. Definitions of wanted kinds stay whole.
func (d *definitions) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if raw, is := o.(*rawObject); is && d.wanted[raw.Name].Kind == "" {
			return &rawObject{TypeMeta: raw.TypeMeta, ObjectMeta: raw.ObjectMeta}, nil
		}
		return o, nil
	}
}

// Add applies a definition (applyDefinition).
func (d *definitions) Add(o any) error { return d.applyDefinition(o) }

// Update applies a definition (applyDefinition).
func (d *definitions) Update(o any) error { return d.applyDefinition(o) }

// applyDefinition records the served version of a wanted kind and calls changed if it or the
// definition's UID differs. A kind that is no longer served keeps its objects. It returns an error
// if o is no definition, or the definition of a wanted kind cannot be decoded.
func (d *definitions) applyDefinition(o any) error {
	raw, ok := o.(*rawObject)
	if !ok {
		return fmt.Errorf("%T is no definition", o)
	}
	kind, wanted := d.wanted[raw.Name]
	if !wanted {
		return nil
	}
	version, err := servedVersion(raw.body, kind.Versions)
	if err != nil {
		return fmt.Errorf("read the definition of %s: %w", kind.Kind, err)
	}
	now, before := definition{version, string(raw.UID)}, d.known[raw.Name]
	if version == "" || now == before {
		return nil // not served yet or no longer; that alone removes no objects
	}
	d.known[raw.Name] = now
	d.changed(kind, now, true)
	return nil
}

// Delete removes a definition and calls changed, so that all objects of the kind are deleted.
// Unwanted kinds are ignored. It returns an error if o is no object.
func (d *definitions) Delete(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	d.removeDefinition(object.GetName())
	return nil
}

// removeDefinition forgets the definition of this name and calls changed. It does nothing for
// unwanted kinds.
func (d *definitions) removeDefinition(name string) {
	if kind, wanted := d.wanted[name]; wanted {
		delete(d.known, name)
		d.changed(kind, definition{}, false)
	}
}

// Replace applies a full list of definitions, removes the kinds that are missing from it, and wakes
// Run. It stops with an error at the first element that is no definition, or the definition of a
// wanted kind that cannot be decoded.
func (d *definitions) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, o := range list {
		if raw, ok := o.(*rawObject); ok {
			there[raw.Name] = true
		}
		if err := d.applyDefinition(o); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		if !there[name] {
			d.removeDefinition(name)
		}
	}
	d.mu.Lock()
	d.listed = true
	d.mu.Unlock()
	d.wake.Notify()
	return nil
}

// servedVersion returns the first of versions that a definition serves. It returns "" if it serves
// none of them or is not established yet, and an error if body cannot be decoded.
func servedVersion(body []byte, versions []string) (string, error) {
	var text struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &text); err != nil {
		return "", err
	}
	established := false
	for _, c := range text.Status.Conditions {
		established = established || c.Type == "Established" && c.Status == "True"
	}
	if !established {
		return "", nil
	}
	served := map[string]bool{}
	for _, v := range text.Spec.Versions {
		served[v.Name] = v.Served
	}
	if i := slices.IndexFunc(versions, func(v string) bool { return served[v] }); i >= 0 {
		return versions[i], nil
	}
	return "", nil
}
