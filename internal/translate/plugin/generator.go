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

// Generator generates the extension configs of Views, and caches each distinct one. It is safe for
// concurrent use.
type Generator struct {
	made *memo.Table[input, *resource.Resource]
}

// input is everything that an extension config depends on.
type input struct {
	object *config.Config
	// secret is the Secret that the image is pulled with; nil if there is none, and if the plugin is
	// replaced.
	secret *config.Config
	// replaced is set if the proxies' Envoy cannot run the plugin.
	replaced bool
}

// NewGenerator returns a Generator with an empty cache.
func NewGenerator() *Generator { return &Generator{memo.New(newResource)} }

// Named returns the extension config with a name, or nil if no plugin of the View has it: proxies
// cannot read plugins that do not apply to them. For a Wasm plugin that the proxies' Envoy cannot
// run, it is the config of the replacement.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if !strings.HasPrefix(name, namePrefix) {
		return nil
	}
	for _, c := range v.Snapshot.Plugins(v.Key.Plugins) {
		if nameOf(c.Key) != name {
			continue
		}
		if isReplaced(v, c) {
			return g.made.Get(input{object: c, replaced: true})
		}
		return g.made.Get(input{object: c, secret: pullSecret(v, c)})
	}
	return nil
}

// Computed returns how many extension configs have been generated since the start.
func (g *Generator) Computed() uint64 { return g.made.Computed() }

// Touched reports whether a change may alter the result of Named; s is the snapshot after the
// change. It returns true for d.All, and for a change of a WasmPlugin or TrafficExtension of the
// View, or of its pull Secret.
func Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	if v.IsAnyAttachedChanged(d, api.WasmPlugin, api.TrafficExtension) {
		return true
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

// Scope returns the part of a Key that Named depends on: the plugins, whether the proxies' Envoy
// can run them, and whether the proxies' identity is verified.
func Scope(k view.Key) view.Key {
	scope := view.Key{
		AttachedObjects: k.ObjectsFor(view.PluginReader),
		MissingFeatures: k.MissingFeatures & view.WasmRuntime,
	}
	if k.Plugins != (snapshot.PluginNames{}) && k.SecretAccess.IsVerified() {
		scope.SecretAccess = view.SecretsAllowed
	}
	return scope
}

// newResource returns the encoded extension config of a plugin, which derives from the plugin and
// its pull Secret. It panics if the config cannot be encoded.
func newResource(in input) *resource.Resource {
	name, from := nameOf(in.object.Key), []config.Key{in.object.Key}
	if in.secret != nil {
		from = append(from, in.secret.Key)
	}
	r, err := resource.Encode(
		name,
		api.ExtensionType,
		&corev3.TypedExtensionConfig{Name: name, TypedConfig: packAny(in.filter())},
		from...,
	)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", name, err)) // Generated messages always encode.
	}
	return r
}
