package adapter

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcp "istio.io/api/mcp/v1alpha1"
)

// resource is an encoded ServiceEntry.
type resource struct {
	name    string // "namespace/name"
	version string // a hash of the content, equal after a restart
	body    *anypb.Any
}

// catalog holds the ServiceEntries that are served. It is safe for concurrent use.
type catalog struct {
	platform string
	log      *slog.Logger

	mu        sync.Mutex
	resources map[string]*resource // replaced, never changed
	version   uint64
	synced    bool
	changed   chan struct{} // closed at the next change

	requests, rejects, saveFailures prometheus.Counter
}

// newCatalog returns a catalog without resources that is not synced. The caller registers its
// metrics.
func newCatalog(platform string, log *slog.Logger) *catalog {
	return &catalog{
		platform: platform, log: log, resources: map[string]*resource{}, changed: make(chan struct{}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "adapter_xds_responses_total", Help: "Responses sent to control planes.",
		}),
		rejects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "adapter_xds_rejects_total", Help: "Responses that control planes rejected.",
		}),
		saveFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "adapter_state_save_failures_total", Help: "How often the state file could not be written.",
		}),
	}
}

// apply applies a change of the platform, increments the version and wakes the streams; Synced in a
// change makes the catalog ready. A service that cannot be converted keeps its last entries, and
// the problem is logged. A change that only has problems is logged only.
func (c *catalog) apply(change Change) {
	for k, err := range change.Problems {
		if err != nil {
			c.log.Warn("the platform reports a problem", "service", k.String(), "problem", err)
		}
	}
	if len(change.Set)+len(change.Deleted) == 0 && !change.Synced {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(c.resources)
	for _, k := range change.Deleted {
		c.deleteParts(next, k, 0)
	}
	for _, s := range change.Set {
		parts, problems := newResources(c.platform, s)
		for _, p := range problems {
			c.log.Warn("a part of a service is not used", "service", s.String(), "problem", p, "refused", parts == nil)
		}
		if parts == nil {
			continue
		}
		c.deleteParts(next, s.ServiceKey, len(parts))
		for _, r := range parts {
			next[r.name] = r
		}
	}
	c.resources = next
	c.version++
	c.synced = c.synced || change.Synced
	close(c.changed)
	c.changed = make(chan struct{})
}

// state returns the resources, which must not be changed, their version, and a channel that is
// closed at the next change. ready is false until the platform has reported everything once.
func (c *catalog) state() (resources map[string]*resource, version uint64, changed <-chan struct{}, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resources, c.version, c.changed, c.synced
}

// deleteParts deletes the entries of a service from resources, from part number from up to the
// first part that does not exist.
func (c *catalog) deleteParts(resources map[string]*resource, k ServiceKey, from int) {
	for {
		name := cmp.Or(k.Namespace, DefaultNamespace) + "/" + partName(c.platform, k.Name, from)
		if resources[name] == nil {
			return
		}
		delete(resources, name)
		from++
	}
}

// newResources encodes a service as the resources of its ServiceEntries, and returns the problems
// of its parts. There are no resources if NewEntries refuses the service, or if one of its entries
// cannot be encoded, which is another problem.
func newResources(platform string, s Service) ([]*resource, []FieldError) {
	entries, problems := NewEntries(platform, s)
	var list []*resource
	for _, e := range entries {
		r, err := newResource(e)
		if err != nil {
			return nil, append(problems, FieldError{"spec", err.Error()})
		}
		list = append(list, r)
	}
	return list, problems
}

// newResource encodes a ServiceEntry, with a hash of its content as version. It returns an error if
// a text is not valid UTF-8.
func newResource(e Entry) (*resource, error) {
	options := proto.MarshalOptions{Deterministic: true}
	spec, err := options.Marshal(e.Spec)
	if err != nil {
		return nil, err
	}
	name := e.Namespace + "/" + e.Name
	wrapper := &mcp.Resource{
		Metadata: &mcp.Metadata{Name: name, Labels: e.Labels, Annotations: e.Annotations},
		Body: &anypb.Any{TypeUrl: "type.googleapis.com/" + string(e.Spec.ProtoReflect().Descriptor().FullName()),
			Value: spec},
	}
	if !e.Created.IsZero() {
		wrapper.Metadata.CreateTime = timestamppb.New(e.Created)
	}
	encoded, err := options.Marshal(wrapper)
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write(encoded)
	return &resource{
		name: name, version: strconv.FormatUint(hash.Sum64(), 16),
		body: &anypb.Any{TypeUrl: "type.googleapis.com/" + string(wrapper.ProtoReflect().Descriptor().FullName()),
			Value: encoded},
	}, nil
}

// newMetricsHandler returns the handler of /metrics and /ready. An adapter is ready once the
// platform has reported everything. Until then /ready responds 503 with the error of the last
// Watch.
func newMetricsHandler(platform string, f *Follower, c *catalog) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.requests, c.rejects, c.saveFailures)
	for _, g := range []struct {
		name, help string
		value      func(Status) float64
	}{
		{"adapter_services", "Services in use.", func(s Status) float64 { return float64(s.Services) }},
		{"adapter_instances", "Instances in use.", func(s Status) float64 { return float64(s.Instances) }},
		{"adapter_held_instances", "Instances in use that the platform does not list.",
			func(s Status) float64 { return float64(s.Held) }},
		{"adapter_problems", "Services with a problem, and 1 for the platform.",
			func(s Status) float64 { return float64(s.Problems) }},
		{"adapter_watch_failures", "How often watching the platform failed.",
			func(s Status) float64 { return float64(s.Failures) }},
		{"adapter_synced", "1 while the platform can be read.", func(s Status) float64 {
			if s.Synced {
				return 1
			}
			return 0
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: g.name, Help: g.help, ConstLabels: prometheus.Labels{"platform": platform},
		}, func() float64 { return g.value(f.Status()) }))
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if _, _, _, ready := c.state(); !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, f.Status().Error)
		}
	})
	return mux
}
