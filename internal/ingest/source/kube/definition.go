package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// definitionKind is the kind of definitions of kinds. It is followed and never told of.
var definitionKind = api.KindInfo{Kind: "CustomResourceDefinition", Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Versions: []string{"v1"}, ClusterScoped: true}

// definition is which version of a custom kind is asked for, and which definition says so: one that was deleted and made
// again is another.
type definition struct{ version, uid string }

// definitions are the definitions of custom kinds that an API server has: the end of a reflector.
type definitions struct {
	*shard
	// wanted are the custom kinds, by the name of their definition ("gateways.networking.istio.io").
	wanted map[string]api.KindInfo
	// changed is told of each change of a wanted kind's definition, false if it was deleted. It is called by one goroutine at a time.
	changed func(kind api.KindInfo, d definition, there bool)

	known map[string]definition
}

var (
	_ cache.ReflectorStore    = (*definitions)(nil)
	_ cache.TransformingStore = (*definitions)(nil)
)

func newDefinitions(of *shard, kinds []api.KindInfo, changed func(api.KindInfo, definition, bool)) *definitions {
	d := &definitions{shard: of, wanted: map[string]api.KindInfo{}, changed: changed, known: map[string]definition{}}
	for _, k := range kinds {
		if k.Custom {
			d.wanted[k.Plural+"."+k.Group] = k
		}
	}
	return d
}

// Transformer forgets the schemas of definitions, which are big, as they arrive.
func (d *definitions) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if raw, is := o.(*rawObject); is && d.wanted[raw.Name].Kind == "" {
			return &rawObject{TypeMeta: raw.TypeMeta, ObjectMeta: raw.ObjectMeta}, nil
		}
		return o, nil
	}
}

// Add takes up a definition.
func (d *definitions) Add(o any) error { return d.put(o) }

// Update takes up a definition.
func (d *definitions) Update(o any) error { return d.put(o) }

func (d *definitions) put(o any) error {
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
		return nil // not served yet, or not any more; that alone takes nothing away
	}
	d.known[raw.Name] = now
	d.changed(kind, now, true)
	return nil
}

// Delete takes up that a definition is gone, and with it all objects of the kind.
func (d *definitions) Delete(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	d.gone(object.GetName())
	return nil
}

func (d *definitions) gone(name string) {
	if kind, wanted := d.wanted[name]; wanted {
		delete(d.known, name)
		d.changed(kind, definition{}, false)
	}
}

// Replace takes up all definitions that there are.
func (d *definitions) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, o := range list {
		if raw, ok := o.(*rawObject); ok {
			there[raw.Name] = true
		}
		if err := d.put(o); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		if !there[name] {
			d.gone(name)
		}
	}
	d.mu.Lock()
	d.listed = true
	d.mu.Unlock()
	d.signal()
	return nil
}

// servedVersion gives the first of the versions that a definition serves, "" if it serves none of them, or nothing yet.
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
