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

// library converts snapshots to ResourceSnapshots. Parts that do not change between two snapshots
// are shared by their ResourceSnapshots.
type library struct {
	types     *stream.Types
	log       *slog.Logger
	sections  []*section
	mesh      *meshconfig.MeshConfig // the input of group
	group     *stream.ResourceGroup
	resources *stream.ResourceSnapshot
	encoded   int // number of objects encoded since the library was created
}

// section contains the objects of one kind and the ResourceGroup made from them.
type section struct {
	kind  api.KindInfo
	list  []*config.Config // the input of group
	rows  map[config.Key]*config.Config
	group *stream.ResourceGroup
}

// newLibrary returns a library with an empty section for each of kinds. It encodes nothing yet.
func newLibrary(types *stream.Types, log *slog.Logger) *library {
	l := &library{types: types, log: log}
	for _, k := range kinds() {
		l.sections = append(l.sections, &section{kind: k, rows: map[config.Key]*config.Config{}})
	}
	return l
}

// resourcesOf returns the ResourceSnapshot of s: the mesh config and all objects of the served
// kinds, each kind under every one of its type URLs. It updates l for that, and returns the
// previous ResourceSnapshot if none of them changed since the last call. What cannot be encoded is
// logged (updateSection, encodeMesh). It must not be called concurrently.
func (l *library) resourcesOf(s *snapshot.Snapshot) *stream.ResourceSnapshot {
	changed := l.resources == nil
	if m := s.Settings.Mesh; l.group == nil || m != l.mesh {
		l.mesh, changed = m, true
		l.group = stream.NewResourceGroup(new(resource.Set).With(l.encodeMesh(m), nil))
	}
	for _, x := range l.sections {
		if l.updateSection(x, s.Configs(x.kind.Kind)) {
			changed = true
		}
	}
	if !changed {
		return l.resources
	}
	groups := map[string][]*stream.ResourceGroup{meshConfigType: {l.group}}
	for _, x := range l.sections {
		for _, url := range typeURLs(x.kind) {
			groups[url] = []*stream.ResourceGroup{x.group}
		}
	}
	l.resources = stream.BuildResourceSnapshot(stream.Contents{Types: l.types, Groups: groups})
	return l.resources
}

// updateSection replaces the objects of section x with list, which it stores. It reports whether it
// replaced the section's ResourceGroup: at the first call, and when encoded content changed or an
// object was removed. It encodes only objects whose pointer changed. An object that cannot be
// encoded is logged and skipped until it changes. Its last encoded version, if any, stays in the
// group.
func (l *library) updateSection(x *section, list []*config.Config) bool {
	if x.group != nil && sameList(x.list, list) {
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
		r, err := encodeObject(c)
		if err != nil {
			l.log.Error("object cannot be encoded for other control planes; skipped",
				"object", c.Key.String(), "error", err)
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
	if x.group != nil {
		before = x.group.Set()
	}
	x.list, x.rows = list, rows
	set := before.With(updated, removed)
	if x.group != nil && set == before {
		return false
	}
	x.group = stream.NewResourceGroup(set)
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

// encodeObject converts an object to a resource with an mcp.Resource, named NAMESPACE/NAME. The
// version in its metadata is the hash of the object's content. The resourceVersion of an API server
// is not used: it changes with the status too, and differs between clusters. The annotation
// lastApplied is left out; c is not changed. It returns an error if the spec is not a protobuf
// message or anything cannot be encoded.
func encodeObject(c *config.Config) (*resource.Resource, error) {
	spec, ok := c.Spec.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("its spec has type %T, which is not a protobuf message", c.Spec)
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
	body := &anypb.Any{
		TypeUrl: "type.googleapis.com/" + string(spec.ProtoReflect().Descriptor().FullName()),
		Value:   value,
	}
	return resource.Encode(m.Name, objectType, &mcp.Resource{Metadata: m, Body: body}, c.Key)
}

// encodeMesh converts the mesh config to a list of one resource. It leaves out ConfigSources,
// without changing m, because they may contain keys and are meant only for this control plane. If
// encoding fails, it logs the error and returns nil.
func (l *library) encodeMesh(m *meshconfig.MeshConfig) []*resource.Resource {
	if len(m.ConfigSources) > 0 {
		m, _ = proto.Clone(m).(*meshconfig.MeshConfig) // Clone keeps the type
		m.ConfigSources = nil
	}
	r, err := resource.Encode("mesh", meshType, m)
	if err != nil {
		l.log.Error("mesh configuration cannot be encoded for other control planes; skipped", "error", err)
		return nil
	}
	return []*resource.Resource{r}
}
