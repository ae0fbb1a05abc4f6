package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// shortNames returns the kinds by their abbreviations, most of which kubectl accepts too.
func shortNames() map[string]api.Kind {
	return map[string]api.Kind{
		"vs": api.VirtualService, "dr": api.DestinationRule, "gw": api.Gateway, "se": api.ServiceEntry,
		"we": api.WorkloadEntry, "wg": api.WorkloadGroup, "ap": api.AuthorizationPolicy,
		"pa": api.PeerAuthentication, "ra": api.RequestAuthentication, "telemetry": api.Telemetry,
		"gtw": api.KubernetesGateway, "gc": api.GatewayClass, "refgrant": api.ReferenceGrant, "ing": api.Ingress,
	}
}

// parseKind returns the kind with a name as in kubectl: a kind, its plural or its short name, in
// any case, with or without the API group. Without a group, Gateway is Istio's. It returns an error
// for a kind that the control plane does not read.
func parseKind(text string) (api.Kind, error) {
	if k, ok := shortNames()[strings.ToLower(text)]; ok {
		return k, nil
	}
	name, group, hasGroup := strings.Cut(strings.ToLower(text), ".")
	kinds := api.Kinds()
	i := slices.IndexFunc(kinds, func(k api.KindInfo) bool {
		return (name == strings.ToLower(k.Kind.Name()) || name == k.Plural) && (!hasGroup || group == k.Group)
	})
	if i < 0 {
		return "", fmt.Errorf("kind %q is not one that the control plane reads", text)
	}
	return kinds[i].Kind, nil
}

// defaultNamespace is the namespace of an object for which none is named, as in kubectl.
const defaultNamespace = "default"

// parseObject returns the key for KIND/NAME. An empty namespace means "default", as in kubectl, and
// is ignored for cluster-scoped kinds. It returns an error for another form or an unknown kind. The
// kind may be in any case, or a short or plural form that parseKind knows.
func parseObject(text, namespace string) (config.Key, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return config.Key{}, fmt.Errorf("%q: want KIND/NAME, like virtualservice/reviews", text)
	}
	k, err := parseKind(kind)
	if err != nil {
		return config.Key{}, err
	}
	info, _ := api.Info(k)
	switch {
	case info.ClusterScoped:
		namespace = ""
	case namespace == "":
		namespace = defaultNamespace
	}
	return config.Key{Kind: k, Namespace: namespace, Name: name}, nil
}
