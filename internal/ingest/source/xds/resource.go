package xds

import (
	"fmt"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// MaxMessage is the size of the largest response that a Source reads.
const MaxMessage = maxMessage

// TypeURLs returns the types that a Source requests, by kind. These are the kinds of Istio.
func TypeURLs() map[api.Kind]string {
	urls := map[api.Kind]string{}
	for _, k := range api.Kinds() {
		if k.Istio() {
			urls[k.Kind] = typeURL(k)
		}
	}
	return urls
}

// ReadResource decodes and validates a resource of a kind as a Source does. It returns the object's
// name, which is "namespace/name" for a usable object, and "" if it cannot be read. If the resource
// cannot be used, or the kind is not one of TypeURLs, the object is nil and a Problem is an Error.
// A usable object may have Warnings.
func ReadResource(kind api.Kind, resource *anypb.Any) (name string, object *config.Config, problems []config.Problem) {
	info, known := api.Info(kind)
	fail := func(format string, args ...any) (string, *config.Config, []config.Problem) {
		return name, nil, []config.Problem{{Reason: fmt.Sprintf(format, args...), Severity: config.Error}}
	}
	switch {
	case !known:
		return fail("the kind %s is unknown", kind)
	case !info.Istio():
		return fail("the kind %s is not an Istio kind: it cannot be read over xDS", kind)
	}
	if got := resource.GetTypeUrl(); got != anyPrefix+wrapperType {
		return fail("it is a %q, not a %s", got, wrapperType)
	}
	encodedName, err := readName(resource.GetValue())
	if err != nil {
		return fail("%v", err)
	}
	name = string(encodedName)
	namespace, base, ok := splitName(name)
	if !ok {
		return fail("its name is %q, want namespace/name", name)
	}
	object, problems = readObject(info, config.Key{Kind: kind, Namespace: namespace, Name: base}, resource.GetValue(),
		"")
	return name, object, problems
}
