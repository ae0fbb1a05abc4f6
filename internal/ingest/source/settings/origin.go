package settings

import (
	"fmt"
	"os"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// what is said: the mesh configuration, or the mesh networks.
type what string

// The two are keys of ConfigMaps.
const (
	meshOf     what = "mesh"
	networksOf what = "meshNetworks"
)

// check says what is wrong with a text.
func (w what) check(text []byte) error {
	_, err := w.settings(text)
	return err
}

// warnings returns what of a text that can be read has no effect.
func (w what) warnings(text []byte) []config.Problem {
	if w == meshOf {
		return mesh.MeshConfigWarnings(text)
	}
	return nil
}

// settings reads texts, each over the ones before it.
func (w what) settings(texts ...[]byte) (*mesh.Settings, error) {
	if w == meshOf {
		m, err := mesh.ParseMeshConfig(texts...)
		return &mesh.Settings{Mesh: m}, err
	}
	n, err := mesh.ParseMeshNetworks(texts...)
	return &mesh.Settings{Networks: n}, err
}

// origin is where a text comes from: a file, or a key of a ConfigMap.
type origin struct {
	what      what
	path      string
	configMap string
}

// name names it for people.
func (o origin) name(namespace string) string {
	if o.configMap == "" {
		return o.path
	}
	return fmt.Sprintf("ConfigMap/%s/%s, key %s", namespace, o.configMap, o.what)
}

func (o origin) load(read func(name, key string) ([]byte, error)) ([]byte, error) {
	if o.configMap != "" {
		return read(o.configMap, string(o.what))
	}
	text, err := os.ReadFile(o.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return text, err
}

// origins are where texts come from, those that count more behind the others. A file that is there at the start takes the place of
// the control plane's own ConfigMap, as in Istio.
func (s *Source) origins() []origin {
	var list []origin
	for _, x := range []struct {
		what what
		path string
	}{{meshOf, s.Mesh}, {networksOf, s.Networks}} {
		api := s.ConfigMaps.Objects != nil
		if api && s.ConfigMaps.Shared != "" {
			list = append(list, origin{what: x.what, configMap: s.ConfigMaps.Shared})
		}
		_, err := os.Stat(x.path)
		switch {
		case api && (x.path == "" || os.IsNotExist(err)):
			list = append(list, origin{what: x.what, configMap: s.ConfigMaps.Name})
		case x.path != "":
			list = append(list, origin{what: x.what, path: x.path})
		}
	}
	return list
}
