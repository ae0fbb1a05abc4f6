package config

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// GrantsReference reports whether a ReferenceGrant allows objects of a namespace to refer to an
// object. isFrom reports whether they are of a group and kind; any entry of from, together with any
// of to, suffices. The grant must be in the namespace of the object: that is not checked. An entry
// of to without a name covers all objects of the kind.
func GrantsReference(grant *Config, namespace string, isFrom func(group, kind string) bool, to Key) bool {
	spec := &Spec[*gatewayv1.ReferenceGrant](grant).Spec
	info, _ := api.Info(to.Kind)
	return slices.ContainsFunc(spec.From, func(f gatewayv1.ReferenceGrantFrom) bool {
		return string(f.Namespace) == namespace && isFrom(string(f.Group), string(f.Kind))
	}) && slices.ContainsFunc(spec.To, func(t gatewayv1.ReferenceGrantTo) bool {
		return string(t.Group) == info.Group && string(t.Kind) == to.Kind.Name() &&
			(t.Name == nil || *t.Name == "" || string(*t.Name) == to.Name)
	})
}
