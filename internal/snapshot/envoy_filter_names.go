package snapshot

import (
	"encoding/binary"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// PatchNames identifies the EnvoyFilter patches that apply to a proxy, by resource type. Proxies
// with equal names have the same patches. The zero value contains none.
type PatchNames struct {
	Clusters PatchList
	// Listeners also contains the patches of routes that are inlined in inbound listeners.
	Listeners  PatchList
	Routes     PatchList
	Extensions PatchList
}

// PatchList lists patches by object and index, in the order of application:
// "istio-system/lua:0,2;default/limits:1".
type PatchList string

// Has reports whether one of the patches of the EnvoyFilter k is in any of the lists.
func (n PatchNames) Has(k config.Key) bool {
	return n.Clusters.Has(k) || n.Listeners.Has(k) || n.Routes.Has(k) || n.Extensions.Has(k)
}

// Has reports whether one of the object's patches is in the list. It returns false for objects of
// other kinds.
func (l PatchList) Has(k config.Key) bool {
	if l == "" || k.Kind != api.EnvoyFilter {
		return false
	}
	object := k.Namespace + "/" + k.Name + ":"
	return strings.HasPrefix(string(l), object) || strings.Contains(string(l), ";"+object)
}

// WithoutObject returns the lists without the patches of the EnvoyFilter k.
func (n PatchNames) WithoutObject(k config.Key) PatchNames {
	return PatchNames{
		n.Clusters.withoutObject(k),
		n.Listeners.withoutObject(k),
		n.Routes.withoutObject(k),
		n.Extensions.withoutObject(k),
	}
}

// withoutObject returns the list without the patches of the EnvoyFilter k; l itself if it has none.
func (l PatchList) withoutObject(k config.Key) PatchList {
	if !l.Has(k) {
		return l
	}
	object := k.Namespace + "/" + k.Name + ":"
	var kept []string
	for one := range strings.SplitSeq(string(l), ";") {
		if !strings.HasPrefix(one, object) {
			kept = append(kept, one)
		}
	}
	return PatchList(strings.Join(kept, ";"))
}

// buildPatchNames sorts matched patches into the lists for a proxy of type t. matched has pairs of
// varints: the index of an EnvoyFilter in rows, and of its patch.
func buildPatchNames(rows []*filterRow, matched []byte, t mesh.ProxyType) PatchNames {
	var n PatchNames
	for len(matched) > 0 {
		i, size := binary.Uvarint(matched)
		j, more := binary.Uvarint(matched[size:])
		matched = matched[size+more:]
		r := rows[i]
		for _, l := range r.patches[j].resourceLists(&n, t) {
			*l = l.appendPatch(r.object.Key, int(j))
		}
	}
	return n
}

// appendPatch returns l with the patch with that index of the EnvoyFilter k appended. It adds only
// the index if the last entry is of the same object.
func (l PatchList) appendPatch(k config.Key, patch int) PatchList {
	object := k.Namespace + "/" + k.Name + ":"
	last := l[strings.LastIndexByte(string(l), ';')+1:]
	switch {
	case strings.HasPrefix(string(last), object):
		l += ","
	case l != "":
		l += PatchList(";" + object)
	default:
		l = PatchList(object)
	}
	return l + PatchList(strconv.Itoa(patch))
}

// resourceLists returns the lists of n to which a patch belongs. Each is for a resource type of a
// proxy of type t that the patch may modify. Patches of routes of a sidecar belong to listeners if
// inbound, to routes if outbound, else to both. It returns nil for patches of the bootstrap.
func (p *patchRow) resourceLists(n *PatchNames, t mesh.ProxyType) []*PatchList {
	switch p.applyTo {
	case networking.EnvoyFilter_CLUSTER:
		return []*PatchList{&n.Clusters}
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_LISTENER_FILTER:
		return []*PatchList{&n.Listeners}
	case networking.EnvoyFilter_ROUTE_CONFIGURATION,
		networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_HTTP_ROUTE:
		switch {
		case t != mesh.SidecarProxy:
			return []*PatchList{&n.Routes}
		case p.context == networking.EnvoyFilter_SIDECAR_INBOUND:
			return []*PatchList{&n.Listeners}
		case p.context == networking.EnvoyFilter_SIDECAR_OUTBOUND:
			return []*PatchList{&n.Routes}
		default:
			return []*PatchList{&n.Listeners, &n.Routes}
		}
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return []*PatchList{&n.Extensions}
	default: // the bootstrap is not sent over xDS
		return nil
	}
}
