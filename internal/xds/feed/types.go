package feed

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// meshConfigType is the type URL under which Istio's clients ask for the mesh config.
const meshConfigType = "core/v1alpha1/MeshConfig"

// typeURLs gives the types that a kind is served as: "group/version/kind", one for each version of its API, whose messages are
// all the same.
func typeURLs(k api.KindInfo) []string {
	var urls []string
	for _, v := range k.Versions {
		urls = append(urls, k.Group+"/"+v+"/"+string(k.Kind))
	}
	return urls
}

// kinds gives the kinds that are served: those with a protobuf spec.
func kinds() []api.KindInfo {
	var list []api.KindInfo
	for _, k := range api.Kinds() {
		if k.Istio() {
			list = append(list, k)
		}
	}
	return list
}

// newTypes gives the table of all types for streams. All of them may be asked for as a whole, and of each it may be said that
// something is gone.
func newTypes() *stream.Types {
	list := []stream.Type{{URL: meshConfigType, Wildcard: true, Removable: true}}
	for _, k := range kinds() {
		for _, url := range typeURLs(k) {
			list = append(list, stream.Type{URL: url, Wildcard: true, Removable: true})
		}
	}
	return stream.NewTypes(list...)
}
