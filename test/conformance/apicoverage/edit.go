package apicoverage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// An edit changes one message in place.
type edit func(m protoreflect.Message)

// Edited returns a copy of the case in which every message of the subject was passed through
// change, and the objects of the subject's kind as they are after it.
//
// Every message is decoded and encoded again, so compare a copy only with another copy: an edit
// that does nothing is the baseline.
func (c *Case) Edited(s Subject, change edit) (*Case, error) {
	out := &Case{c.Name, &txtar.Archive{Comment: c.archive.Comment}}
	for _, f := range c.archive.Files {
		data, err := editFile(s, f, change)
		if err != nil {
			return nil, fmt.Errorf("case %q: %s: %w", c.Name, f.Name, err)
		}
		out.archive.Files = append(out.archive.Files, txtar.File{Name: f.Name, Data: data})
	}
	return out, nil
}

func editFile(s Subject, f txtar.File, change edit) ([]byte, error) {
	switch s.Name {
	case "MeshConfig":
		if isMeshConfig(f.Name) {
			return editSettings(f.Data, s.Type, change)
		}
	case "MeshConfig.defaultConfig":
		return editProxyConfig(f, change)
	case "MeshNetworks":
		if strings.HasSuffix(f.Name, "networks.yaml") {
			return editSettings(f.Data, s.Type, change)
		}
	case "MeshNetworks.networks":
		if strings.HasSuffix(f.Name, "networks.yaml") {
			return editSettings(f.Data, new(meshconfig.MeshNetworks), func(m protoreflect.Message) {
				for _, n := range m.Interface().(*meshconfig.MeshNetworks).GetNetworks() {
					change(n.ProtoReflect())
				}
			})
		}
	default:
		if hasObjects(f) {
			return editObjects(f.Data, s, change)
		}
	}
	return f.Data, nil
}

// editSettings decodes text as a message of the type of like, and encodes it again after change.
func editSettings(text []byte, like proto.Message, change edit) ([]byte, error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return editJSON(asJSON, like, change)
}

func editJSON(text []byte, like proto.Message, change edit) ([]byte, error) {
	m := like.ProtoReflect().New()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m.Interface()); err != nil {
		return nil, err
	}
	change(m)
	return protojson.Marshal(m.Interface())
}

// editProxyConfig edits the ProxyConfig of a mesh, or the agent's own: see ofAgent.
func editProxyConfig(f txtar.File, change edit) ([]byte, error) {
	if isMeshConfig(f.Name) {
		return editSettings(f.Data, new(meshconfig.MeshConfig), func(m protoreflect.Message) {
			if p := m.Interface().(*meshconfig.MeshConfig).GetDefaultConfig(); p != nil {
				change(p.ProtoReflect())
			}
		})
	}
	const variable, annotation = "PROXY_CONFIG=", "proxy.istio.io/config="
	var out bytes.Buffer
	for line := range strings.SplitSeq(strings.TrimSuffix(string(f.Data), "\n"), "\n") {
		for _, own := range ofAgent(txtar.File{Name: f.Name, Data: []byte(line)}) {
			text, err := editSettings(own, new(meshconfig.ProxyConfig), change)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(line, variable) {
				line = variable + string(text)
			} else {
				line = annotation + strconv.Quote(string(text))
			}
		}
		out.WriteString(line + "\n")
	}
	return out.Bytes(), nil
}

// editObjects edits the specs of the objects of the subject's kind, and leaves the other objects as
// they are.
func editObjects(text []byte, s Subject, change edit) ([]byte, error) {
	var out bytes.Buffer
	documents := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var d map[string]json.RawMessage
		if err := documents.Decode(&d); errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		} else if err != nil {
			return nil, err
		}
		if err := editObject(d, s, change); err != nil {
			return nil, err
		}
		asJSON, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		// Without the comment the decoder takes all documents for a stream of JSON.
		fmt.Fprintf(&out, "# document\n%s\n---\n", asJSON)
	}
}

func editObject(d map[string]json.RawMessage, s Subject, change edit) error {
	var kind string
	if err := json.Unmarshal(d["kind"], &kind); err != nil || kind != string(s.Kind) {
		return err
	}
	whole, err := json.Marshal(d)
	if err != nil {
		return err
	}
	objects, err := fixture.Decode(whole)
	if err != nil || len(objects) != 1 || objects[0].Kind != s.Kind {
		return err
	}
	d["spec"], err = editJSON(d["spec"], s.Type, change)
	return err
}
