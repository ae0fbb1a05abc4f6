package feed

import (
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	mcp "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Types of the resources themselves. They differ from the type URLs that clients subscribe to.
const (
	objectType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
	meshType   = "type.googleapis.com/istio.mesh.v1alpha1.MeshConfig"
)

// library converts snapshots to Worlds. Parts that do not change between two snapshots are shared
// by their Worlds.
type library struct {
	types    *stream.Types
	log      *slog.Logger
	sections []*section
	mesh     *meshconfig.MeshConfig // the input of shelf
	shelf    *stream.Shelf
	world    *stream.World
	encoded  int // number of objects encoded since the library was created
}

// section contains the objects of one kind and the Shelf made from them.
type section struct {
	kind  api.KindInfo
	list  []*config.Config // the input of shelf
	rows  map[config.Key]*config.Config
	shelf *stream.Shelf
}

func newLibrary(types *stream.Types, log *slog.Logger) *library {
	l := &library{types: types, log: log}
	for _, k := range kinds() {
		l.sections = append(l.sections, &section{kind: k, rows: map[config.Key]*config.Config{}})
	}
	return l
}

// of returns the World of a snapshot. It returns the previous World if no served object and no mesh
// config changed.
func (l *library) of(s *snapshot.Snapshot) *stream.World {
	changed := l.world == nil
	if m := s.Settings.Mesh; l.shelf == nil || m != l.mesh {
		l.mesh, changed = m, true
		l.shelf = stream.NewShelf(new(resource.Set).With(l.encodeMesh(m), nil))
	}
	for _, x := range l.sections {
		if l.update(x, s.Configs(x.kind.Kind)) {
			changed = true
		}
	}
	if !changed {
		return l.world
	}
	shelves := map[string][]*stream.Shelf{meshConfigType: {l.shelf}}
	for _, x := range l.sections {
		for _, url := range typeURLs(x.kind) {
			shelves[url] = []*stream.Shelf{x.shelf}
		}
	}
	l.world = stream.MakeWorld(stream.Contents{Types: l.types, Shelves: shelves})
	return l.world
}

// update replaces the objects of a section with list and reports whether its Shelf changed. It
// encodes only objects whose row changed. An object that cannot be encoded is logged and skipped.
func (l *library) update(x *section, list []*config.Config) bool {
	if x.shelf != nil && sameList(x.list, list) {
		return false
	}
	var updated []*resource.Resource
	var removed []string
	rows := make(map[config.Key]*config.Config, len(list))
	for _, c := range list {
		rows[c.Key] = c
		if x.rows[c.Key] == c {
			continue
		}
		r, err := encode(c)
		if err != nil {
			l.log.Error("an object cannot be fed to other control planes", "object", c.Key.String(), "error", err)
			continue
		}
		l.encoded++
		updated = append(updated, r)
	}
	for key := range x.rows {
		if rows[key] == nil {
			removed = append(removed, nameOf(key))
		}
	}
	before := new(resource.Set)
	if x.shelf != nil {
		before = x.shelf.Set()
	}
	x.list, x.rows = list, rows
	set := before.With(updated, removed)
	if x.shelf != nil && set == before {
		return false
	}
	x.shelf = stream.NewShelf(set)
	return true
}

// sameList reports whether a and b are the same list of a snapshot. A snapshot creates a new list
// when an object of the kind changes, so comparing the first elements' addresses is enough.
func sameList(a, b []*config.Config) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// nameOf returns the resource name of an object: "namespace/name".
func nameOf(k config.Key) string { return k.Namespace + "/" + k.Name }

// lastApplied is removed from annotations. kubectl rewrites it on every apply, and it contains the
// whole object a second time.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// encode converts an object to a resource. Its version is the hash of its content. The
// resourceVersion of an API server is not used: it changes with the status too, and differs between
// clusters.
func encode(c *config.Config) (*resource.Resource, error) {
	spec, ok := c.Spec.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("its spec is a %T, which is no protobuf message", c.Spec)
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return nil, err
	}
	m := &mcp.Metadata{
		Name: nameOf(c.Key), Version: strconv.FormatUint(c.Hash, 16), Labels: c.Labels, Annotations: c.Annotations,
	}
	if !c.Created.IsZero() {
		m.CreateTime = timestamppb.New(c.Created)
	}
	if _, there := m.Annotations[lastApplied]; there {
		m.Annotations = maps.Clone(m.Annotations)
		delete(m.Annotations, lastApplied)
	}
	body := &anypb.Any{TypeUrl: "type.googleapis.com/" + string(spec.ProtoReflect().Descriptor().FullName()), Value: value}
	return resource.Encode(m.Name, objectType, &mcp.Resource{Metadata: m, Body: body}, c.Key)
}

// encodeMesh converts the mesh config to a resource. It removes ConfigSources, because they may
// contain keys and are meant only for this control plane. If encoding fails, it logs the error and
// returns nil.
func (l *library) encodeMesh(m *meshconfig.MeshConfig) []*resource.Resource {
	if len(m.ConfigSources) > 0 {
		m, _ = proto.Clone(m).(*meshconfig.MeshConfig) // Clone keeps the type
		m.ConfigSources = nil
	}
	r, err := resource.Encode("mesh", meshType, m)
	if err != nil {
		l.log.Error("the mesh config cannot be fed to other control planes", "error", err)
		return nil
	}
	return []*resource.Resource{r}
}
