package xds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mcp "istio.io/api/mcp/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// anyPrefix is the prefix of type URLs in Any. The part before the slash is ignored.
const anyPrefix = "type.googleapis.com/"

// wrapperType is the message type of all resources: Istio's wrapper for config objects.
const wrapperType = "istio.mcp.v1alpha1.Resource"

// typeURL returns the resource type of a kind as Istio's client requests it: in v1, or in the
// stored version if the kind has no v1.
func typeURL(k api.KindInfo) string {
	version := k.Versions[0]
	if slices.Contains(k.Versions, "v1") {
		version = "v1"
	}
	return k.Group + "/" + version + "/" + string(k.Kind)
}

// splitName splits the name in a wrapper, "namespace/name". ok is false if the name has another
// form.
func splitName(name string) (namespace, base string, ok bool) {
	namespace, base, ok = strings.Cut(name, "/")
	return namespace, base, ok && namespace != "" && base != "" && !strings.Contains(base, "/")
}

// readObject decodes and validates the object with this key, which is encoded as an MCP Resource.
// The Config is nil if one of the Problems is an Error: for unreadable data, another name, a
// missing spec or another type. Unknown fields and enum values, an invalid creation time and an
// invalid spec are Errors too.
func readObject(kind api.KindInfo, key config.Key, encoded []byte, origin string) (*config.Config, []config.Problem) {
	fail := func(field, format string, args ...any) (*config.Config, []config.Problem) {
		return nil, []config.Problem{{
			Key: key, Field: field, Reason: fmt.Sprintf(format, args...), Severity: config.Error, Origin: origin,
		}}
	}
	var wrapper mcp.Resource
	if err := proto.Unmarshal(encoded, &wrapper); err != nil {
		return fail("", "cannot be read as %s: %v", wrapperType, err)
	}
	m := wrapper.GetMetadata()
	if want := key.Namespace + "/" + key.Name; m.GetName() != want {
		return fail("metadata.name", "is %q in one place and %q in another", want, m.GetName())
	}
	spec := kind.NewSpec()
	body := wrapper.GetBody()
	switch {
	case body == nil:
		return fail("spec", "is missing")
	case !sameMessage(body.GetTypeUrl(), spec.ProtoReflect().Descriptor().FullName()):
		return fail(
			"spec",
			"is a %s, not a %s",
			strings.TrimPrefix(body.GetTypeUrl(), anyPrefix),
			spec.ProtoReflect().Descriptor().FullName(),
		)
	}
	if err := proto.Unmarshal(body.GetValue(), spec); err != nil {
		return fail("spec", "cannot be read: %v", err)
	}
	if at, reason := unknownPart(spec); reason != "" {
		return fail(at, "%s", reason)
	}
	var created time.Time
	if t := m.GetCreateTime(); t != nil {
		if err := t.CheckValid(); err != nil {
			return fail("metadata.creationTimestamp", "is not a time between the years 1 and 9999")
		}
		created = t.AsTime()
	}
	c, err := config.New(config.Meta{
		Key: key, Labels: m.GetLabels(), Annotations: m.GetAnnotations(), Created: created,
		ResourceVersion: m.GetVersion(), Origin: origin,
	}, spec)
	if err != nil {
		return fail("", "%v", err)
	}
	problems := config.Validate(c)
	for _, p := range problems {
		if p.Severity == config.Error {
			return nil, problems
		}
	}
	return c, problems
}

// sameMessage reports whether the type URL of an Any names the wanted message. The API versions of
// a message are the same message: istio.networking.v1alpha3.Sidecar and
// istio.networking.v1beta1.Sidecar.
func sameMessage(anyURL string, want protoreflect.FullName) bool {
	got := protoreflect.FullName(anyURL[strings.LastIndex(anyURL, "/")+1:])
	return got == want || got.Name() == want.Name() && got.Parent().Parent() == want.Parent().Parent()
}
