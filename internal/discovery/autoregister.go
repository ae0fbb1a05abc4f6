package discovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/kube/autoregister"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// Workloads configures the registration of workloads outside of Kubernetes.
type Workloads struct {
	// NoRegistration disables automatic WorkloadEntries (set by
	// PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION=false). NoHealthChecks ignores the health that
	// agents report (set by PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS=false).
	NoRegistration, NoHealthChecks bool
	// Grace is how long an entry is kept after its workload disconnected
	// (PILOT_WORKLOAD_ENTRY_GRACE_PERIOD).
	Grace time.Duration
	// AnyIdentity also registers workloads that are not authenticated (set by
	// ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY=false).
	AnyIdentity bool
	// Plaintext registers workloads that connect without TLS, if AnyIdentity is set too (default false;
	// MESHPILOT_PLAINTEXT_REGISTRATION).
	Plaintext bool
}

// workloads registers workloads and maintains their WorkloadEntries.
type workloads struct {
	*autoregister.Registrar
	s *server
	// memory stores entries if there is no API server to store them in; otherwise it is nil.
	memory *autoregister.MemoryStore
}

var _ xds.Workloads = (*workloads)(nil)

func (s *server) newWorkloads() *workloads {
	o := s.options.Workloads
	w := &workloads{s: s}
	var store autoregister.Store
	if s.client != nil && s.options.configFromCluster() {
		store = autoregister.NewKubernetesStore(s.client.Dynamic, s.client.Metadata)
	} else {
		w.memory = s.workloadMemory()
		store = w.memory
	}
	w.Registrar = autoregister.New(autoregister.Options{
		Store: store, Instance: s.options.PodName, Grace: o.Grace, Register: !o.NoRegistration, HealthChecks: !o.NoHealthChecks,
		AllowAnyIdentity: o.AnyIdentity, Metrics: s.metrics, Log: s.logs.Scope("autoregister"),
		Group: func(namespace, name string) *config.Config {
			return s.inUse(config.Key{Kind: api.WorkloadGroup, Namespace: namespace, Name: name})
		},
		Entries: func() []*config.Config { return s.current.Load().Configs(api.WorkloadEntry) },
	})
	return w
}

// workloadFile is the name of the file with registered workloads, in the directory of the mesh's
// authority.
const workloadFile = "registered-workloads.json"

// workloadMemory returns the store of entries without an API server. With an authority directory,
// entries are saved there and survive a restart. If that file cannot be read, it logs a warning and
// starts empty, because workloads register again.
func (s *server) workloadMemory() *autoregister.MemoryStore {
	if s.options.Authority.Dir == "" {
		return autoregister.NewMemoryStore()
	}
	m, err := autoregister.OpenMemoryStore(filepath.Join(s.options.Authority.Dir, workloadFile))
	if err != nil {
		s.logs.Scope("autoregister").Warn("workloads that were registered before are not known", "error", err)
		return autoregister.NewMemoryStore()
	}
	return m
}

// run maintains entries until ctx ends. Abandoned entries are deleted only by the leader, or by
// this process if entries are in memory.
func (w *workloads) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { w.Run(ctx); return nil })
	group.Go(func() error {
		if w.memory != nil { // There is no other replica.
			w.CleanUpAbandoned(ctx, nil)
			return nil
		}
		return w.s.elections.Run(ctx, leader.Workloads, func(ctx context.Context) { w.CleanUpAbandoned(ctx, w.alive) })
	})
	return group.Wait()
}

// alive reports whether a replica exists, which means that a pod of its name exists. It returns an
// error if this replica is not a pod itself, because then others may not be pods either.
func (w *workloads) alive(ctx context.Context, instance string) (bool, error) {
	pods := w.s.client.Kubernetes.CoreV1().Pods(w.s.options.Namespace)
	if _, err := pods.Get(ctx, w.s.options.PodName, metav1.GetOptions{}); err != nil {
		return false, fmt.Errorf("get the pod of this replica: %w", err)
	}
	switch _, err := pods.Get(ctx, instance, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get the pod of another replica: %w", err)
	}
	return true, nil
}

// Connect registers the workload of a proxy. It returns nil without error if the registrar does
// not handle the proxy. A refused registration is returned as PermissionDenied or
// FailedPrecondition.
func (w *workloads) Connect(ctx context.Context, p *mesh.Proxy) (xds.Workload, error) {
	c, err := w.Registrar.Connect(ctx, p)
	var refused *autoregister.RegistrationError
	switch {
	case errors.As(err, &refused) && refused.Denied:
		return nil, status.Error(codes.PermissionDenied, "auto-registration of "+p.ID+": "+refused.Reason)
	case errors.As(err, &refused):
		return nil, status.Error(codes.FailedPrecondition, "auto-registration of "+p.ID+": "+refused.Reason)
	case err != nil:
		return nil, err
	case c == nil:
		return nil, nil
	}
	return c, nil
}

// EntryRegistered and the following methods implement autoregister.Metrics.
func (x metrics) EntryRegistered()   { x.m.Writes.Registered.Inc() }
func (x metrics) EntryUpdated()      { x.m.Writes.Updated.Inc() }
func (x metrics) EntryUnregistered() { x.m.Writes.Unregistered.Inc() }
func (x metrics) EntryDeleted()      { x.m.Writes.Deleted.Inc() }
func (x metrics) EntryError()        { x.m.Writes.Errors.Inc() }
