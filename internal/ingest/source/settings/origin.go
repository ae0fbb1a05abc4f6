package settings

import (
	"fmt"
	"os"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// textKind is the kind of a text: the mesh configuration or the mesh networks.
type textKind string

// The values are the keys in ConfigMaps.
const (
	meshText     textKind = "mesh"
	networksText textKind = "meshNetworks"
)

// checkText returns an error if a text of this kind cannot be parsed.
func (w textKind) checkText(text []byte) error {
	_, err := w.parseTexts(text)
	return err
}

// textWarnings returns Problems for the parts of a valid text that are skipped, nil if there are
// none.
func (w textKind) textWarnings(text []byte) []config.Problem {
	if w == meshText {
		return mesh.MeshConfigWarnings(text)
	}
	return mesh.MeshNetworksWarnings(text)
}

// parseTexts returns the settings of texts of this kind, each merged over the ones before it. The
// result is not nil even with an error.
func (w textKind) parseTexts(texts ...[]byte) (*mesh.Settings, error) {
	if w == meshText {
		m, err := mesh.ParseMeshConfig(texts...)
		return &mesh.Settings{Mesh: m}, err
	}
	n, err := mesh.ParseMeshNetworks(texts...)
	return &mesh.Settings{Networks: n}, err
}

// origin is a location of a text: a file, or a key of a ConfigMap.
type origin struct {
	what      textKind
	path      string
	configMap string
}

// displayName returns the location for messages: the path of a file, or the ConfigMap and key.
// namespace is the ConfigMap's.
func (o origin) displayName(namespace string) string {
	if o.configMap == "" {
		return o.path
	}
	return fmt.Sprintf("ConfigMap/%s/%s, key %s", namespace, o.configMap, o.what)
}

// readText returns the text of the file, or of the ConfigMap with read. It returns nil without an
// error for a file that does not exist.
func (o origin) readText(read func(name, key string) ([]byte, error)) ([]byte, error) {
	if o.configMap != "" {
		return read(o.configMap, string(o.what))
	}
	text, err := os.ReadFile(o.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return text, err
}

// origins returns the locations of the mesh configuration and of the networks, in ascending order
// of precedence. A file that exists now replaces the control plane's own ConfigMap, as in Istio. A
// ConfigMap that all revisions share comes first. Without an API server there are only the named
// files, also ones that do not exist.
func (s *Source) origins() []origin {
	var list []origin
	for _, x := range []struct {
		what textKind
		path string
	}{{meshText, s.Mesh}, {networksText, s.Networks}} {
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
