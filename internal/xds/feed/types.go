package feed

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// meshConfigType is the type URL under which Istio's clients request the mesh config.
const meshConfigType = "core/v1alpha1/MeshConfig"

// typeURLs returns the type URLs of a kind: "group/version/kind" for each version of its API. The
// resources of all versions are the same.
func typeURLs(k api.KindInfo) []string {
	var urls []string
	for _, v := range k.Versions {
		urls = append(urls, k.Group+"/"+v+"/"+string(k.Kind))
	}
	return urls
}

// kinds returns the kinds that are served: the Istio kinds; each has a protobuf spec.
func kinds() []api.KindInfo {
	var list []api.KindInfo
	for _, k := range api.Kinds() {
		if k.Istio() {
			list = append(list, k)
		}
	}
	return list
}

// newTypes returns the table of all types for streams. Clients may subscribe to every type by
// wildcard, and every type supports removal.
func newTypes() *stream.Types {
	list := []stream.Type{{URL: meshConfigType, Wildcard: true, Removable: true}}
	for _, k := range kinds() {
		for _, url := range typeURLs(k) {
			list = append(list, stream.Type{URL: url, Wildcard: true, Removable: true})
		}
	}
	return stream.NewTypes(list...)
}
