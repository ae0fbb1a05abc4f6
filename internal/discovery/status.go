package discovery

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Status configures the writes to the status of objects of an API server.
type Status struct {
	// Off disables status conditions (default false; set by PILOT_ENABLE_STATUS=false).
	Off bool
	// Limits limit the writes (PILOT_STATUS_QPS, PILOT_STATUS_BURST, PILOT_STATUS_MAX_WORKERS and
	// PILOT_STATUS_UPDATE_INTERVAL).
	Limits status.Limits
}

// statusWriter writes the state of objects into their status: conditions, allocated addresses and
// the addresses of Ingresses.
type statusWriter struct {
	s      *server
	book   *status.AppliedObjects
	writer *status.Writer

	mu        sync.Mutex
	conflicts viewProblems
}

// viewProblems caches the Problems found in the Views of one snapshot, because finding them is
// slow. They are not computed again before due.
type viewProblems struct {
	snapshot uint64
	list     []config.Problem
	due      time.Time
}

// newStatus returns the status writer, or nil without an API server.
func (s *server) newStatus() (*statusWriter, error) {
	o := s.options.Status
	if s.client == nil {
		return nil, nil
	}
	// Status writes have a rate limit of their own, so that they and other requests cannot delay
	// each other.
	config := rest.CopyConfig(s.client.Config)
	config.QPS, config.Burst = o.Limits.QPS, o.Limits.Burst
	if config.QPS == 0 {
		config.QPS = 100
	}
	if config.Burst == 0 {
		config.Burst = 500
	}
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, err
	}
	w := &statusWriter{s: s, book: status.NewAppliedObjects(s.options.clusterName(), nil)}
	w.writer = status.New(status.Options{
		Inputs: status.Inputs{
			Applied: w.book, InUse: s.inUse, Problems: w.problems, Refusals: s.pages.Refusals, Distribution: s.distribution,
		},
		Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Namespace: s.options.Namespace, Pod: s.options.PodName, Revision: s.options.Revision,
		Limits: o.Limits, Metrics: s.metrics, Log: s.logs.Scope("status"),
	})
	return w, nil
}

// run writes status while this replica is the leader, and otherwise reports its own state to the
// leader, until ctx ends. Each kind of status has its own election.
func (w *statusWriter) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if !w.s.options.Status.Off {
		group.Go(func() error { w.writer.Run(ctx); return nil })
		group.Go(func() error { return w.s.elections.Run(ctx, leader.Status, w.writer.Lead) })
		if r := w.s.options.Revision; r != "" && r != "default" {
			group.Go(func() error { return w.s.elections.Run(ctx, leader.Status+"-"+r, w.writer.LeadRevision) })
		}
	}
	if a := w.s.options.Allocation; len(a.Ranges) > 0 && !a.OnlyOnRequest {
		group.Go(func() error {
			return w.s.elections.Run(ctx, leader.Addresses, func(ctx context.Context) { w.writer.LeadAddresses(ctx, w.s.addressesOf) })
		})
	}
	group.Go(func() error {
		return w.s.elections.Run(ctx, leader.Ingress, func(ctx context.Context) { w.writer.LeadIngresses(ctx, w.s.ingressAt) })
	})
	return group.Wait()
}

// ingressAt returns the addresses of an Ingress, which are the addresses of the gateways' Service.
// It returns the addresses of the nodes that run them if the mesh configuration names no Service
// (MeshConfig.ingressService). known is false if the Ingress is not served by this mesh or the
// Service does not exist.
func (s *server) ingressAt(k config.Key) (list []networkingv1.IngressLoadBalancerIngress, known bool) {
	current := s.current.Load()
	object, m := current.Config(k), current.Settings.Mesh
	if object == nil {
		return nil, false
	}
	spec := config.Spec[*networkingv1.Ingress](object)
	var class *networkingv1.IngressClass
	if name := spec.Spec.IngressClassName; name != nil {
		if c := current.Config(config.Key{Kind: api.IngressClass, Name: *name}); c != nil {
			class = config.Spec[*networkingv1.IngressClass](c)
		}
	}
	if !ingress.IsServed(m, spec, class) {
		return nil, false
	}
	namespace := cmp.Or(s.options.Registry.IngressNamespace, "istio-system")
	service, named := ingress.ServiceKey(m, namespace, s.options.Domain)
	if !named {
		return ingress.LoadBalancerStatus(&mesh.Service{External: s.ingresses.NodeAddresses()}), true
	}
	svc := current.Service(service)
	if svc == nil {
		return nil, false
	}
	return ingress.LoadBalancerStatus(svc), true
}

// addressesOf returns the automatically allocated addresses of the hosts of a ServiceEntry. It
// omits hosts whose service comes from another object.
func (s *server) addressesOf(k config.Key) []config.HostAddress {
	current := s.current.Load()
	c := current.Config(k)
	if c == nil {
		return nil
	}
	var list []config.HostAddress
	for _, host := range config.Spec[*networking.ServiceEntry](c).GetHosts() {
		host = strings.ToLower(host)
		svc := current.Service(mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.Hostname(host)})
		if svc == nil || svc.From != k {
			continue
		}
		for _, a := range svc.Allocated {
			list = append(list, config.HostAddress{Host: host, Address: a})
		}
	}
	return list
}

// published records the version of a snapshot that is about to be published, and the extent of its
// changes.
func (w *statusWriter) published(next *snapshot.Snapshot, d snapshot.Delta) {
	difference := status.Everything
	switch {
	case d.Empty():
		difference = status.Nothing
	case d.EndpointsOnly():
		difference = status.Endpoints
	}
	w.book.RecordSnapshot(next.Version, difference)
}

func (s *server) inUse(k config.Key) *config.Config { return s.current.Load().Config(k) }

// problems returns all Problems of objects except rejections by proxies, and the version of the
// snapshot that was analyzed last. It omits objects of remote clusters, whose status is not
// written, and local objects that are named like them.
func (w *statusWriter) problems() (snapshot uint64, list []config.Problem) {
	snapshot, list = w.s.analysis.Problems()
	list = slices.Concat(list, w.s.current.Load().Problems(), w.inViews())
	return snapshot, slices.DeleteFunc(list, remote.IsRemote)
}

// inViews returns the Problems found in the Views of proxies. They are cached until the snapshot
// changes. Computing them is limited to a twentieth of the time.
func (w *statusWriter) inViews() []config.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, current := time.Now(), w.s.current.Load().Version
	if w.conflicts.snapshot == current || now.Before(w.conflicts.due) {
		return w.conflicts.list
	}
	list := w.s.pages.FoundInViews()
	took := time.Since(now)
	w.conflicts = viewProblems{snapshot: current, list: list, due: now.Add(analysis.Pause(took))}
	return list
}

// distribution returns, for each object, how many proxies of this replica it configures and how
// many of those have acknowledged it. The first result is the version of the snapshot.
func (s *server) distribution(objects map[config.Key]struct{}) (uint64, map[config.Key]status.Count) {
	d := s.pusher.Distribution(objects)
	counts := make(map[config.Key]status.Count, len(d.Reach))
	for k, r := range d.Reach {
		counts[k] = status.Count{Proxies: r.Proxies, Acknowledged: r.Acknowledged}
	}
	return d.Snapshot, counts
}

// Written increments the counter of status writes.
func (x metrics) Written(kind api.Kind, outcome string) {
	x.m.Writes.Statuses.WithLabelValues(string(kind), outcome).Inc()
}
