package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/contenthash"
)

// Key identifies an object. Cluster-scoped kinds have an empty Namespace.
type Key struct {
	Kind      api.Kind
	Namespace string
	Name      string
}

// String returns "Kind/namespace/name", the form used in logs and debug output.
func (k Key) String() string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Meta is the metadata that all objects have.
type Meta struct {
	Key
	Labels      map[string]string
	Annotations map[string]string
	// Created orders objects that conflict over a host: the oldest wins. Ties are resolved by name,
	// then by namespace.
	Created         time.Time
	ResourceVersion string
	Generation      int64
	// Origin is where the object was read, for display: "reviews.yaml#2:14" (file, document, line;
	// decode.Origin), or "" for an API server.
	Origin string
	// Status is nil for most objects.
	Status *Status
	// Extension is nil for objects that users wrote.
	Extension *Extension
}

// Status contains the parts of an object's status that change generated configuration. The rest of
// the status is only informative.
type Status struct {
	// Addresses are the addresses allocated to hosts (ServiceEntry.status.addresses).
	Addresses []HostAddress
	// Healthy is the WorkloadEntry condition Healthy, which is set from the agent's health check.
	// If the condition is missing, the workload has not been found healthy yet.
	Healthy bool
}

// HostAddress is a virtual address of one of a ServiceEntry's hosts.
type HostAddress struct{ Host, Address string }

// Config is one object as a user wrote it. It is immutable: an edit creates a new Config.
type Config struct {
	Meta
	// Spec is the message of istio.io/api for Istio kinds, a pointer as returned by
	// api.KindInfo.NewSpec. For Kubernetes kinds, it is the whole object (*corev1.Service, …).
	Spec any
	// Hash covers everything that can change generated configuration: the key, spec, creation time,
	// Status, Extension, and for Istio kinds the labels and annotations that can have an effect
	// (appendHashed). For Kubernetes kinds, labels and annotations are part of the spec. Hash does not
	// cover the resource version, generation or origin. Two Configs with equal Keys and Hashes are
	// interchangeable.
	Hash uint64
}

// New returns a Config with meta and spec, which it does not copy, and its Hash. That covers the
// spec and all metadata that can change generated configuration (for labels and annotations see
// appendHashed). Resource version, generation and origin are not in it. It returns an error if the
// spec or metadata cannot be encoded.
func New(meta Meta, spec any) (*Config, error) {
	c := &Config{Meta: meta, Spec: spec}
	var rare []byte
	var err error
	if meta.Status != nil || meta.Extension != nil {
		if rare, err = json.Marshal([]any{meta.Status, meta.Extension}); err != nil {
			return nil, fmt.Errorf("hash %s: %w", meta.Key, err)
		}
	}
	c.Hash = contenthash.Of(func(b *contenthash.Buffer) {
		b.Text(string(meta.Kind))
		b.Text(meta.Namespace)
		b.Text(meta.Name)
		if info, _ := api.Info(meta.Kind); info.Istio() {
			appendHashed(b, meta.Kind, meta.Labels)
			appendHashed(b, meta.Kind, meta.Annotations)
		}
		b.Uint64(uint64(meta.Created.Unix()))
		b.Uint32(uint32(meta.Created.Nanosecond()))
		if rare != nil {
			b.Bytes(rare)
		}
		*b, err = appendCanonically(*b, spec) // last, so it needs no length
	})
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", meta.Key, err)
	}
	return c, nil
}

// RequiredAnnotation on an EnvoyFilter determines what happens if proxies refuse a resource that it
// patches. If "true", proxies keep the previous version of the resource. If "false", they receive
// the resource without the EnvoyFilter. If it is not set, an EnvoyFilter is left out only if that
// cannot weaken protection (docs/adr/0008).
const RequiredAnnotation = "meshpilot.io/required"

// appendHashed appends the labels or annotations of an object of an Istio kind that can change
// generated configuration to b, sorted by key. They are Istio's own and RequiredAnnotation, so other
// entries of Helm, Argo or users change nothing. For ServiceEntry, WorkloadEntry and WorkloadGroup
// they are all entries except the annotation that kubectl rewrites on every apply.
func appendHashed(b *contenthash.Buffer, kind api.Kind, entries map[string]string) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	own := kind != api.ServiceEntry && kind != api.WorkloadEntry && kind != api.WorkloadGroup
	keys := make([]string, 0, len(entries))
	for k := range entries {
		domain, _, _ := strings.Cut(k, "/")
		if k != lastApplied &&
			(!own || k == RequiredAnnotation || domain == "istio.io" || strings.HasSuffix(domain, ".istio.io")) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	b.Uint32(uint32(len(keys)))
	for _, k := range keys {
		b.Text(k)
		b.Text(entries[k])
	}
}

// kubernetesMessage is a message of the Kubernetes API. Map keys are sorted in its encoding.
type kubernetesMessage interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// appendCanonically appends the encoding of a spec to b and returns the result. Equal specs have
// equal encodings within one process. Protobuf and Kubernetes messages are encoded in binary, all
// other specs as JSON. With an error, the result has no meaning.
func appendCanonically(b []byte, spec any) ([]byte, error) {
	switch m := spec.(type) {
	case proto.Message:
		return proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
	case kubernetesMessage:
		size := m.Size()
		end := len(b) + size
		out := slices.Grow(b, size)[:end]
		if _, err := m.MarshalToSizedBuffer(out[len(b):]); err != nil {
			return b, err
		}
		return out, nil
	default:
		text, err := json.Marshal(spec)
		return append(b, text...), err
	}
}

// Spec returns the spec of c as T. It panics if T is not the type of the object's kind, because
// that is a bug in the caller.
func Spec[T any](c *Config) T {
	s, ok := c.Spec.(T)
	if !ok {
		panic(fmt.Sprintf("config: spec of %s is %T, not %T", c.Key, c.Spec, s))
	}
	return s
}

// CompareAge compares Configs by age: creation time, then name, then namespace. Conflicts between
// objects of one kind are always resolved in this order.
func CompareAge(a, b *Config) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}
