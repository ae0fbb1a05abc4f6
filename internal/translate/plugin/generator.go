package plugin

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Generator makes the extensions of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	made *memo.Table[input, *resource.Resource]
}

// input is all that an extension depends on: the plugin, and the Secret that its image is pulled with, if there is one.
type input struct{ object, secret *config.Config }

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator { return &Generator{memo.New(encode)} }

// Named gives the extension of that name, nil if no plugin of the View has it: what others run is nobody else's business.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if !strings.HasPrefix(name, namePrefix) {
		return nil
	}
	for _, c := range v.Snapshot.Plugins(v.Key.Plugins) {
		if nameOf(c.Key) == name {
			return g.made.Get(input{c, pullSecret(v, c)})
		}
	}
	return nil
}

// Computed is how many extensions were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.made.Computed() }

// Touched says whether a change may alter what Named gives; s is the snapshot after it.
func Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	secrets := false
	for k := range d.Configs {
		if v.Key.Plugins.Has(k) {
			return true
		}
		secrets = secrets || k.Kind == api.Secret
	}
	if !secrets {
		return false
	}
	for _, c := range s.Plugins(v.Key.Plugins) {
		if k, ok := PullSecret(c); ok {
			if _, changed := d.Configs[k]; changed {
				return true
			}
		}
	}
	return false
}

// Scope is the part of a Key that Named depends on: the plugins, and whether it is known who the proxies are.
func Scope(k view.Key) view.Key {
	scope := view.Key{Plugins: k.Plugins}
	if k.Plugins != (snapshot.PluginNames{}) && k.Keys.Vouched() {
		scope.Keys = view.KeysAllowed
	}
	return scope
}

func encode(in input) *resource.Resource {
	name, from := nameOf(in.object.Key), []config.Key{in.object.Key}
	if in.secret != nil {
		from = append(from, in.secret.Key)
	}
	r, err := resource.Encode(name, api.ExtensionType, &corev3.TypedExtensionConfig{Name: name, TypedConfig: packed(filterOf(in))}, from...)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", name, err)) // messages of our own making always encode
	}
	return r
}
