package apicoverage

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// gatewaySubject is a kind of the Gateway API. Its spec is a Go struct, not a protobuf message.
type gatewaySubject struct {
	// Name is also the name of its file in lines/.
	Name string
	Kind api.Kind
	Spec reflect.Type
}

// gatewaySubjects returns all kinds of the Gateway API, of both channels, and that of its Inference Extension.
func gatewaySubjects() []gatewaySubject {
	return []gatewaySubject{
		{"GatewayClass", api.GatewayClass, reflect.TypeFor[gatewayv1.GatewayClassSpec]()},
		{"KubernetesGateway", api.KubernetesGateway, reflect.TypeFor[gatewayv1.GatewaySpec]()},
		{"ListenerSet", api.ListenerSet, reflect.TypeFor[gatewayv1.ListenerSetSpec]()},
		{"HTTPRoute", api.HTTPRoute, reflect.TypeFor[gatewayv1.HTTPRouteSpec]()},
		{"GRPCRoute", api.GRPCRoute, reflect.TypeFor[gatewayv1.GRPCRouteSpec]()},
		{"TLSRoute", api.TLSRoute, reflect.TypeFor[gatewayv1.TLSRouteSpec]()},
		{"TCPRoute", api.TCPRoute, reflect.TypeFor[gatewayv1.TCPRouteSpec]()},
		{"UDPRoute", api.UDPRoute, reflect.TypeFor[gatewayv1.UDPRouteSpec]()},
		{"ReferenceGrant", api.ReferenceGrant, reflect.TypeFor[gatewayv1.ReferenceGrantSpec]()},
		{"BackendTLSPolicy", api.BackendTLSPolicy, reflect.TypeFor[gatewayv1.BackendTLSPolicySpec]()},
		{"XBackendTrafficPolicy", api.XBackendTrafficPolicy, reflect.TypeFor[gatewayx.BackendTrafficPolicySpec]()},
		{"XMesh", api.XMesh, reflect.TypeFor[gatewayx.MeshSpec]()},
		{"XBackend", api.XBackend, reflect.TypeFor[gatewayx.BackendSpec]()},
		{"InferencePool", api.InferencePool, reflect.TypeFor[inferencev1.InferencePoolSpec]()},
	}
}

// elementType returns the type below pointers and lists.
func elementType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// structLeaves returns the JSON paths of the fields of a struct that have no fields themselves. Lists
// and pointers are passed through, maps are leaves.
func structLeaves(t reflect.Type, prefix string) []string {
	var list []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		below := elementType(f.Type)
		switch {
		case name == "" && f.Anonymous:
			list = append(list, structLeaves(below, prefix)...)
		case below.Kind() == reflect.Struct:
			list = append(list, structLeaves(below, prefix+name+".")...)
		default:
			list = append(list, prefix+name)
		}
	}
	return list
}

// structLeavesOf returns the leaves below a field, none for a field that is a leaf itself.
func structLeavesOf(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	return structLeaves(t, "")
}

// structField returns the type of the field at a JSON path, or nil if none exists.
func structField(t reflect.Type, path string) reflect.Type {
	name, rest, deeper := strings.Cut(path, ".")
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		below := elementType(f.Type)
		switch {
		case tag == "" && f.Anonymous:
			if found := structField(below, path); found != nil {
				return found
			}
		case tag != name:
		case !deeper:
			return below
		case below.Kind() == reflect.Struct:
			return structField(below, rest)
		}
	}
	return nil
}

// gatewaySchemas returns the schemas of the specs in the experimental channel, and of the Inference Extension, by kind. They have what
// the Go types lack: the values of enums.
func gatewaySchemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var paths []string
	for module, files := range map[string]string{
		"sigs.k8s.io/gateway-api":                     "config/crd/experimental/*.yaml",
		"sigs.k8s.io/gateway-api-inference-extension": "config/crd/bases/inference.networking.k8s.io_*.yaml",
	} {
		dir, err := program.Module{Dir: root}.SourceOf(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, files))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	schemas := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Kind == "CustomResourceDefinition" {
			schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		}
	}
	return schemas
}

// schemaAt returns the schema of the field at a JSON path, of the elements if the field is a list.
func schemaAt(s apiextensionsv1.JSONSchemaProps, path string) apiextensionsv1.JSONSchemaProps {
	for name := range strings.SplitSeq(path, ".") {
		if s.Items != nil {
			s = *s.Items.Schema
		}
		s = s.Properties[name]
	}
	if s.Items != nil {
		s = *s.Items.Schema
	}
	return s
}

// defaultValue returns the value that the API server sets for a missing field, or "" if it sets none.
func defaultValue(s apiextensionsv1.JSONSchemaProps, path string) string {
	if d := schemaAt(s, path).Default; d != nil {
		return strings.Trim(string(d.Raw), `"`)
	}
	return ""
}

// enumValues returns the values of the enum at a JSON path, nil for a field that is no enum.
func enumValues(s apiextensionsv1.JSONSchemaProps, path string) []string {
	s = schemaAt(s, path)
	var list []string
	for _, v := range s.Enum {
		list = append(list, strings.Trim(string(v.Raw), `"`))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestEveryGatewayKindIsASubject requires a subject for each CustomResourceDefinition of the Gateway
// API's experimental channel, which contains the standard one.
func TestEveryGatewayKindIsASubject(t *testing.T) {
	for kind := range gatewaySchemas(t) {
		if !slices.ContainsFunc(gatewaySubjects(), func(s gatewaySubject) bool { return s.Kind.Name() == kind }) {
			t.Errorf("%s has no account", kind)
		}
	}
}
