package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Key names one object. Cluster-scoped kinds have an empty Namespace.
type Key struct {
	Kind      api.Kind
	Namespace string
	Name      string
}

// String gives "Kind/namespace/name", the form used in logs and debug output.
func (k Key) String() string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Meta is what all objects have.
type Meta struct {
	Key
	Labels      map[string]string
	Annotations map[string]string
	// Created orders objects that compete for one host: the older wins (ties go by name, then namespace).
	Created         time.Time
	ResourceVersion string
	Generation      int64
	// Origin tells a person where the object was read, "reviews.yaml#2:14" (file, document, line) or "" for an API server.
	Origin string
	// Status is nil for most objects.
	Status *Status
}

// Status is what of an object's status shapes configuration. The rest is for people.
type Status struct {
	// Addresses were allocated to hosts (ServiceEntry.status.addresses).
	Addresses []HostAddress
	// Healthy is the condition of that name (WorkloadEntry), which the agent's health check sets. Without it the workload was
	// not found healthy yet.
	Healthy bool
}

// HostAddress is a virtual address of one of a ServiceEntry's hosts.
type HostAddress struct{ Host, Address string }

// Config is one object as a user wrote it. It is immutable: an edit makes a new Config.
type Config struct {
	Meta
	// Spec is the message of istio.io/api for Istio kinds (a pointer to it, as api.KindInfo.NewSpec makes it),
	// and the whole object (*corev1.Service, …) for Kubernetes kinds.
	Spec any
	// Hash is taken over everything that can change generated configuration: spec, creation time, and those labels and
	// annotations that may mean something, Status; not the resource version, generation or origin. Two Configs of one Key
	// with one Hash are interchangeable.
	Hash uint64
}

// New makes a Config and takes its hash.
func New(meta Meta, spec any) (*Config, error) {
	c := &Config{Meta: meta, Spec: spec}
	body, err := canonical(spec)
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", meta.Key, err)
	}
	head, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Created             time.Time
		Status              *Status
	}{hashedMeta(meta.Kind, meta.Labels), hashedMeta(meta.Kind, meta.Annotations), meta.Created.UTC(), meta.Status})
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", meta.Key, err)
	}
	d := xxhash.New()
	_, _ = d.WriteString(meta.Key.String())
	_, _ = d.Write(head)
	_, _ = d.Write(body)
	c.Hash = d.Sum64()
	return c, nil
}

// RequiredAnnotation on an EnvoyFilter decides what happens when proxies refuse what it changes. "true" means that the resource
// stays as it was before, and "false" that it goes on without the EnvoyFilter. Without it, an EnvoyFilter is left out only if
// that cannot weaken the protection of anything (docs/adr/0008).
const RequiredAnnotation = "meshpilot.io/required"

// hashedMeta gives the labels or annotations that may mean something. Of Istio's own kinds those are Istio's own, and
// RequiredAnnotation: what Helm, Argo and people write beside them changes nothing. Of other kinds all do, but for the annotation that kubectl rewrites on
// every apply.
func hashedMeta(kind api.Kind, entries map[string]string) map[string]string {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	info, _ := api.Info(kind)
	own := info.Istio() && kind != api.ServiceEntry && kind != api.WorkloadEntry && kind != api.WorkloadGroup
	rest := make(map[string]string, len(entries))
	for k, v := range entries {
		domain, _, _ := strings.Cut(k, "/")
		if k != lastApplied && (!own || k == RequiredAnnotation || domain == "istio.io" || strings.HasSuffix(domain, ".istio.io")) {
			rest[k] = v
		}
	}
	return rest
}

// canonical encodes a spec so that equal specs have equal bytes within one process.
func canonical(spec any) ([]byte, error) {
	switch m := spec.(type) {
	case proto.Message:
		return proto.MarshalOptions{Deterministic: true}.Marshal(m)
	case interface{ Marshal() ([]byte, error) }: // the built-in kinds of Kubernetes, whose protobuf form sorts map keys, as JSON does
		return m.Marshal()
	default:
		return json.Marshal(spec)
	}
}

// Spec gives a Config's spec as the type T, which must be the type of its kind: a mismatch is a bug of the caller.
func Spec[T any](c *Config) T {
	s, ok := c.Spec.(T)
	if !ok {
		panic(fmt.Sprintf("config: spec of %s is %T, not %T", c.Key, c.Spec, s))
	}
	return s
}

// Older orders Configs by age: creation time, then name, then namespace. It is the order in which competing objects
// of one kind are considered everywhere.
func Older(a, b *Config) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}
