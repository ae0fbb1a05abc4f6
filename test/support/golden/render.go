package golden

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// YAML renders messages as YAML documents with sorted keys and Envoy's own field names, as its
// config dump has them. The types inside Any fields must be linked into the test binary.
func YAML(t testing.TB, messages ...proto.Message) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, m := range messages {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(renderDocument(t, m))
	}
	return out.Bytes()
}

// Resources renders encoded resources like YAML does, each under a comment that names the objects
// it came from.
func Resources(t testing.TB, list []*resource.Resource) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, r := range list {
		if i > 0 {
			out.WriteString("---\n")
		}
		if len(r.From) > 0 {
			from := make([]string, len(r.From))
			for j, k := range r.From {
				from[j] = k.String()
			}
			fmt.Fprintf(&out, "# from %s\n", strings.Join(from, ", "))
		}
		out.Write(renderDocument(t, Decode(t, r)))
	}
	return out.Bytes()
}

// Decode returns the message that a resource was encoded from.
func Decode(t testing.TB, r *resource.Resource) proto.Message {
	t.Helper()
	m, err := (&anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}).UnmarshalNew()
	if err != nil {
		t.Fatalf("decode %s %q: %v", r.TypeURL, r.Name, err)
	}
	return m
}

func renderDocument(t testing.TB, m proto.Message) []byte {
	t.Helper()
	// protojson varies its white space on purpose; going through YAML leaves none of that.
	js, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatalf("render %T: %v", m, err)
	}
	out, err := yaml.JSONToYAML(js)
	if err != nil {
		t.Fatalf("render %T: %v", m, err)
	}
	return out
}
