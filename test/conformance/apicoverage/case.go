package apicoverage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// caseFolders are where cases are, by the first part of their names.
func caseFolders() map[string]string {
	return map[string]string{
		"agent":          "internal/agent/command/testdata/changes",
		"cluster":        "internal/translate/cluster/testdata",
		"endpoint":       "internal/translate/endpoint/testdata",
		"listener":       "internal/translate/listener/testdata",
		"nametable":      "internal/translate/nametable/testdata",
		"patch":          "internal/translate/patch/testdata",
		"plugin":         "internal/translate/plugin/testdata",
		"route":          "internal/translate/route/testdata",
		"telemetry":      "internal/translate/telemetry/testdata",
		"authorization":  "internal/translate/authorization/testdata",
		"authentication": "internal/translate/authentication/testdata",
	}
}

// Case is a case of some room.
type Case struct {
	Name    string
	archive *txtar.Archive
}

// ReadCase reads the case of a name, "route/match_uri". root is the folder of the repository.
func ReadCase(root, name string) (*Case, error) {
	room, rest, _ := strings.Cut(name, "/")
	folder, ok := caseFolders()[room]
	if !ok {
		return nil, fmt.Errorf("case %q: no room %q has cases", name, room)
	}
	archive, err := txtar.ParseFile(filepath.Join(root, folder, rest+".txtar"))
	if err != nil {
		return nil, fmt.Errorf("case %q: %w", name, err)
	}
	return &Case{name, archive}, nil
}

// CaseNames returns the names of all cases there are.
func CaseNames(root string) ([]string, error) {
	var names []string
	for room, folder := range caseFolders() {
		base := filepath.Join(root, folder)
		err := filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
			if rest, ok := strings.CutSuffix(path, ".txtar"); ok && err == nil {
				names = append(names, room+strings.TrimPrefix(filepath.ToSlash(rest), filepath.ToSlash(base)))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Objects returns the objects in a case.
func (c *Case) Objects() ([]*config.Config, error) {
	var all []*config.Config
	for _, f := range c.archive.Files {
		if !hasObjects(f) {
			continue
		}
		list, err := fixture.Decode(f.Data)
		if err != nil {
			return nil, fmt.Errorf("case %q: %s: %w", c.Name, f.Name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// hasObjects reports whether a section is a list of objects, rather than settings or output.
func hasObjects(f txtar.File) bool {
	return strings.HasSuffix(f.Name, ".yaml") && !strings.HasSuffix(f.Name, "mesh.yaml") &&
		!strings.HasSuffix(f.Name, "networks.yaml") &&
		(bytes.Contains(f.Data, []byte("kind:")) || bytes.Contains(f.Data, []byte(`"kind":`)))
}

// isMeshConfig reports whether the section of that name is a MeshConfig.
func isMeshConfig(name string) bool {
	return strings.HasSuffix(name, "mesh.yaml") || name == "etc/istio/config/mesh"
}

// Messages returns the messages of a subject in a case, without defaults.
func (c *Case) Messages(s Subject) ([]proto.Message, error) {
	if s.Kind == "" {
		return c.meshSettings(s)
	}
	objects, err := c.Objects()
	if err != nil {
		return nil, err
	}
	var list []proto.Message
	for _, o := range objects {
		if o.Kind == s.Kind {
			list = append(list, o.Spec.(proto.Message))
		}
	}
	return list, nil
}

// meshSettings returns the mesh-wide settings in a case. Settings of proxies are part of a
// MeshConfig, or passed to an agent.
func (c *Case) meshSettings(s Subject) ([]proto.Message, error) {
	var list []proto.Message
	for _, f := range c.archive.Files {
		for _, text := range settingsIn(s.Name, f) {
			m := s.Type.ProtoReflect().New().Interface()
			asJSON, err := yaml.YAMLToJSON(text)
			if err == nil {
				err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(asJSON, m)
			}
			if err != nil {
				return nil, fmt.Errorf("case %q: %s: %w", c.Name, f.Name, err)
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func settingsIn(subject string, f txtar.File) [][]byte {
	ofMesh := isMeshConfig(f.Name)
	switch subject {
	case "MeshNetworks":
		if strings.HasSuffix(f.Name, "networks.yaml") {
			return [][]byte{f.Data}
		}
	case "MeshNetworks.networks":
		if strings.HasSuffix(f.Name, "networks.yaml") {
			return networkMessages(f.Data)
		}
	case "MeshConfig":
		if ofMesh {
			return [][]byte{f.Data}
		}
	case "MeshConfig.defaultConfig":
		if ofMesh {
			return defaultConfig(f.Data)
		}
		return ofAgent(f)
	}
	return nil
}

// networkMessages returns the networks of a MeshNetworks.
func networkMessages(text []byte) [][]byte {
	var m struct {
		Networks map[string]any `json:"networks"`
	}
	if yaml.Unmarshal(text, &m) != nil {
		return nil
	}
	var list [][]byte
	for _, n := range m.Networks {
		if part, err := yaml.Marshal(n); err == nil {
			list = append(list, part)
		}
	}
	return list
}

// defaultConfig returns the part of a MeshConfig that is for proxies.
func defaultConfig(text []byte) [][]byte {
	var m struct {
		DefaultConfig any `json:"defaultConfig"`
	}
	if yaml.Unmarshal(text, &m) != nil || m.DefaultConfig == nil {
		return nil
	}
	part, err := yaml.Marshal(m.DefaultConfig)
	if err != nil {
		return nil
	}
	return [][]byte{part}
}

// ofAgent returns the settings of the proxy itself: by variable, or by the annotation of its pod.
func ofAgent(f txtar.File) [][]byte {
	var list [][]byte
	for line := range strings.SplitSeq(string(f.Data), "\n") {
		switch {
		case f.Name == "env" && strings.HasPrefix(line, "PROXY_CONFIG="):
			list = append(list, []byte(strings.TrimPrefix(line, "PROXY_CONFIG=")))
		case f.Name == "etc/istio/pod/annotations" && strings.HasPrefix(line, "proxy.istio.io/config="):
			if text, err := strconv.Unquote(strings.TrimPrefix(line, "proxy.istio.io/config=")); err == nil {
				list = append(list, []byte(text))
			}
		}
	}
	return list
}
