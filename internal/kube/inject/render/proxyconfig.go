package render

import (
	"bytes"
	"encoding/json"
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// protoToJSON returns a message as compact JSON, and {} for nil. Of a ProxyConfig it leaves out
// default values, so that pods stay readable. The output is the same for equal messages.
func protoToJSON(m proto.Message) (string, error) {
	if c, ok := m.(*meshconfig.ProxyConfig); ok && c != nil {
		m = withoutDefaults(c)
	}
	if m == nil || !m.ProtoReflect().IsValid() {
		return "{}", nil
	}
	b, err := protojson.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("encode %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil { // protojson emits random spaces
		return "", err
	}
	return out.String(), nil
}

// withoutDefaults returns a copy of c without the fields that have their default value. A field
// whose default is unset stays.
func withoutDefaults(c *meshconfig.ProxyConfig) *meshconfig.ProxyConfig {
	c = proto.CloneOf(c)
	from, usual := c.ProtoReflect(), mesh.DefaultProxyConfig().ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if usual.Has(f) && v.Equal(usual.Get(f)) {
			from.Clear(f)
		}
		return true
	})
	return c
}
