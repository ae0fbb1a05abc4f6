package discovery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/memory"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/readiness"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/health"
	"github.com/meshpilot/meshpilot/internal/diagnostics/history"
	"github.com/meshpilot/meshpilot/internal/diagnostics/traffic"
	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/internal/identity/authority"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/identity/trustbundle"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi/controller"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	kuberegistry "github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/ingest/source/file"
	"github.com/meshpilot/meshpilot/internal/ingest/source/hostname"
	"github.com/meshpilot/meshpilot/internal/ingest/source/settings"
	kubeclient "github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/admission"
	"github.com/meshpilot/meshpilot/internal/kube/autoregister"
	"github.com/meshpilot/meshpilot/internal/kube/export"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	xdsmetrics "github.com/meshpilot/meshpilot/internal/xds/metrics"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/secrets"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// Options are all settings of a control plane.
type Options = options.Options

// Defaults returns the options of a control plane without flags.
func Defaults() Options { return options.Defaults() }

// Run runs a control plane until ctx ends, and then returns nil. The options must be valid. It
// returns an error if a part cannot be created, or fails later.
//
// The HTTP ports open first, so that a control plane that cannot read its configuration can report
// that. The xDS port opens when all sources are in sync. Until then proxies are refused and keep
// their configuration.
func Run(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return fmt.Errorf("create the control plane: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("run the control plane: %w", err)
	}
	s.log.Info("stopped")
	return nil
}

// server holds the parts of a control plane.
type server struct {
	options    Options
	logs       *obs.Logs
	log        *slog.Logger
	metrics    *obs.Metrics
	xdsMetrics xdsmetrics.Metrics
	recovery   *recovery.Recorder
	ready      *readiness.State
	client     *kubeclient.Client // nil without an API server
	settings   *settings.Source
	sources    []ingest.Feed // settings, config and services; nil until the mesh configuration selects them
	// openedSources are the sources without settings, for readers on other goroutines.
	openedSources atomic.Pointer[[]ingest.Feed]
	feeds         []ingest.Feed // all others, see otherFeeds
	builder       *snapshot.Builder
	table         *translate.Table
	pusher        *push.Pusher
	refused       xds.RefusedClients
	feed          *feed.Feed
	analysis      *analysis.Background
	positions     *file.Positions
	pages         *debug.Pages
	inputs        *ingest.Metrics
	health        *health.Gauges
	current       atomic.Pointer[snapshot.Snapshot]

	secrets           *secrets.Reader
	credentials       *credential.Source // nil without an API server, as the following two
	remoteCredentials *credential.Clusters
	pullSecrets       *credential.PullSecrets
	clusters          *remote.Clusters // nil without an API server
	names             *hostname.Source // nil if names are not resolved
	clusterSets       kuberegistry.ClusterSets
	ingresses         *ingress.Converter
	gateways          *gatewayapi.Converter
	gatewayController *controller.Controller // nil if config objects are not read from an API server
	elections         *leader.Elections      // nil without an API server
	applied           *status.AppliedObjects // nil without an API server
	inViews           *analysis.Cached       // Problems in the Views of this replica's proxies; nil without an API server
	status            *status.Writer         // nil without an API server
	exporter          *export.Exporter       // nil if services are not exported
	registrar         *autoregister.Registrar
	registered        *autoregister.MemoryStore // nil if entries are stored in an API server
	previews          *ingest.Previews
	versions          *history.Log
	traffic           *traffic.Source // nil without a Prometheus
	issuers           *jwks.RuleKeys
	bundles           *trustbundle.Feed

	authority       *authority.Server
	webhooks        *admission.Webhooks // nil without an API server or certificate
	settingsChanged notify.Broadcast
}

// newServer creates the parts. It stops at the first error, opens no port and starts no goroutine.
func newServer(o Options) (*server, error) {
	logs, err := obs.NewLogs(o.Logs)
	if err != nil {
		return nil, err
	}
	m := obs.NewMetrics()
	panics := recovery.New(recovery.Options{Log: logs.Scope(obs.DefaultScope), Count: m.CountPanic}) // ADR 33
	s := &server{
		options: o, logs: logs, log: logs.Scope(obs.DefaultScope),
		metrics: m, xdsMetrics: xdsmetrics.New(m), recovery: panics,
		ready: readiness.New(), previews: ingest.NewPreviews(), positions: file.NewPositions(),
		builder: snapshot.NewBuilder(snapshot.Options{
			Domain: o.Domain, Cluster: mesh.ClusterID(o.ClusterID), Allocation: o.Allocation,
			Features: o.Features, Recovery: panics,
		}),
		table: translate.NewTable(translate.Options{}),
	}
	m.Ready(s.ready.IsReady)
	s.ingresses = ingress.New(ingress.Options{
		Namespace: o.Registry.IngressNamespace, Domain: o.Domain, Recovery: panics, OnNodeAddressesChanged: s.notifyStatus,
	})
	s.gateways = s.newGateways()
	s.analysis = s.newAnalysis()
	s.current.Store(s.builder.Current())
	// Each may use the parts created before it.
	for _, part := range []func() error{
		s.makeReaders, s.makeServers, s.newStatus, s.newGatewayController, s.newExporter, s.newIssuers, s.openSources,
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	s.feeds = s.otherFeeds()
	return s, nil
}

// makeReaders creates the client of the API server, leader election, the sources of Secrets and
// remote clusters, and the resolver of gateway names. Without an API server, s.client and
// s.elections stay nil. It returns an error if a client cannot be created.
func (s *server) makeReaders() (err error) {
	if s.client, err = s.options.NewClient(); err != nil {
		return err
	}
	if s.client != nil {
		s.elections = leader.New(leader.Options{
			Client: s.client.Kubernetes.CoordinationV1(), Namespace: s.options.Namespace, Identity: s.options.PodName,
			OnChange: leader.SetGauge(s.metrics.Writes.Leading), Log: s.logs.Scope("leader"),
		})
	}
	s.newSecrets()
	s.names = s.newNames()
	s.clusters, err = s.newClusters()
	return err
}

// makeServers creates the parts that serve proxies, API servers and users. It returns an error if
// the settings of the authority or the address of Prometheus are refused.
func (s *server) makeServers() (err error) {
	o := s.options.Push
	s.pusher = push.New(push.Options{
		Generators: s.table.Generators, Logger: s.logs.Scope("ads"), Metrics: s.xdsMetrics, Recovery: s.recovery,
		Secrets: s.secretSubscriptions(), Names: s.options.Names,
		Debounce: push.Debounce{After: o.DebounceAfter, Max: o.DebounceMax, EndpointsAtOnce: o.EndpointsAtOnce},
	})
	if s.authority, err = s.newAuthority(); err != nil {
		return err
	}
	s.versions = history.New(s.options.History, nil)
	if url := s.options.PrometheusURL; url != "" {
		if s.traffic, err = traffic.New(url); err != nil {
			return fmt.Errorf("MESHPILOT_PROMETHEUS_URL: %w", err)
		}
	}
	s.webhooks = s.newWebhooks()
	s.pages = s.debugPages()
	s.inputs = ingest.NewMetrics(s.metrics, s.current.Load)
	reports := s.pusher.Reports()
	s.health = health.New(health.Options{Metrics: s.metrics, Pages: s.pages, Reports: reports, Snapshot: s.current.Load})
	s.xdsMetrics.RegisterCounters(s.table.Computed, reports)
	s.registrar = s.newRegistrar()
	return nil
}

// otherFeeds returns the feeds that are not sources of settings, config or services. They are the
// mesh roots, issuers' keys and trust bundles, and Secrets with an API server. Remote clusters,
// gateway names and registered workloads are included as far as they exist.
func (s *server) otherFeeds() []ingest.Feed {
	list := []ingest.Feed{s.authority.RootsFeed(), s.issuers, s.bundles}
	if s.client != nil {
		list = append(list, s.credentials, s.remoteCredentials, s.pullSecrets)
	}
	if s.clusters != nil {
		list = append(list, s.clusters)
	}
	if s.names != nil {
		list = append(list, s.names)
	}
	if s.registered != nil {
		list = append(list, s.registered)
	}
	return list
}

// openSources creates the sources if the mesh configuration is in files. Otherwise awaitSources
// creates them after the API server has answered. It checks the settings first.
func (s *server) openSources() error {
	s.settings = s.settingsFeed()
	if err := s.settings.Check(); err != nil {
		return err
	}
	if !s.settings.FromFiles() {
		return nil
	}
	m, err := s.settings.Load(nil)
	if err != nil {
		return err
	}
	return s.newSources(m)
}

// run opens the HTTP ports, starts all parts and blocks until ctx ends or a part fails, which ends
// the others. The HTTP ports are closed last. It returns the first error, or nil if ctx ended. If
// ControlZ's port is unavailable, that is only logged.
func (s *server) run(ctx context.Context) error {
	ctx = recovery.NewContext(kubeclient.WithDebugLogging(ctx, s.logs.Scope("kube")), s.recovery)
	o := s.options
	if o.SecureGRPCAddr != "" && o.TLSCertFile == "" && s.authority.Serving() == nil {
		s.log.Info("not opened: there is no certificate authority (--caDir, or a Kubernetes cluster), and no --tlsCertFile", "flag", "--secureGRPCAddr", "address", o.SecureGRPCAddr)
	}
	httpAddress := httpserver.Address{Flag: "--httpAddr", Address: o.HTTPAddr}
	monitoringAddress := httpserver.Address{Flag: "--monitoringAddr", Address: o.MonitoringAddr}
	ports, err := httpserver.ListenAll(httpAddress, monitoringAddress)
	if err != nil {
		return err
	}
	http := httpserver.NewGroup(ctx) // Probes and debug pages are served until xDS has ended.
	parts, ctx := errgroup.WithContext(ctx)
	for _, l := range ports {
		s.log.Info("serving HTTP", "address", l.Addr().String())
		http.Serve(l, s.httpOptions(s.handler(ctx.Done())))
	}
	if l := httpserver.ListenOptional("ControlZ", o.ControlZHost, o.ControlZPort, s.log); l != nil {
		http.Serve(l, s.httpOptions(s.logs.ControlZ()))
	}

	parts.Go(func() error { s.pusher.Run(ctx); return nil })
	parts.Go(func() error { memory.Run(ctx, s.ready.Synced()); return nil })
	parts.Go(func() error { return o.ObservePushes(ctx, s.pusher.Reports(), s.logs) })
	parts.Go(func() error {
		return recovery.Loop(ctx, "analysis", func(ctx context.Context) error { s.analysis.Run(ctx); return nil })
	})
	parts.Go(func() error {
		if err := s.awaitSources(ctx); err != nil {
			return err
		}
		return ingest.Run(ctx, ingest.Options{
			Feeds: append(s.sources, s.feeds...), Filters: s.filters(), Converters: s.converters(), Builder: s.builder,
			Publish: s.publish, Observe: s.observe, Waiting: s.setWaiting, Log: s.logs.Scope("model"),
			Recovery: s.recovery, Previews: s.previews,
		})
	})
	parts.Go(func() error { return s.authority.Run(ctx) })
	parts.Go(func() error { s.manageExternalClusters(ctx); return nil })
	parts.Go(func() error { s.followClusters(ctx); return nil })
	parts.Go(func() error { s.readRemoteClusters(ctx); return nil })
	parts.Go(func() error { return s.serveXDS(ctx) })
	parts.Go(func() error { return s.serveWebhooks(ctx) })
	parts.Go(func() error { s.registrar.Run(ctx); return nil })
	parts.Go(func() error { return s.cleanUpWorkloads(ctx) })
	parts.Go(func() error { return s.runExports(ctx) })
	parts.Go(func() error { return s.runGatewayController(ctx) })
	parts.Go(func() error { return s.runStatus(ctx) })
	parts.Go(func() error { return s.runEvents(ctx) })
	parts.Go(func() error { return http.Await(ctx) }) // An HTTP port that fails stops the control plane.
	err = parts.Wait()
	return cmp.Or(err, http.Stop())
}

// observe passes a batch, before it is applied, to the input metrics and the registrar, and if they
// exist to the remote clusters and the status writer. A panic of one part does not affect the
// others.
func (s *server) observe(batch mesh.Batch) {
	s.notify("count inputs", func() { s.inputs.RecordBatch(batch) })
	s.notify("workloads", func() { s.registrar.HandleEvents(batch) })
	if s.clusters != nil {
		s.notify("remote clusters", func() { s.clusters.Observe(batch) })
	}
	if s.status != nil {
		s.notify("status", func() { s.applied.RecordBatch(batch) })
	}
}

// publish makes next the current snapshot and notifies the parts that use it, and s.settingsChanged
// if the settings differ. The status writer is notified before the snapshot becomes current. The
// first call makes s.pullSecrets hold plugins whose Secrets are not known.
func (s *server) publish(next *snapshot.Snapshot, delta snapshot.Delta) {
	if s.status != nil {
		s.notify("status", func() { s.applied.RecordSnapshot(next.Version, delta) })
	}
	if previous := s.current.Swap(next); previous.Settings != next.Settings {
		s.settingsChanged.Notify()
	}
	s.notify("exports", func() { s.triggerExports(delta) })
	s.notify("keys of issuers", func() { s.requestKeys(next, delta) })
	s.secrets.NotifyPublished()
	if s.pullSecrets != nil {
		s.pullSecrets.Hold.StartHolding() // The first snapshot is that of the start.
	}
	if s.names != nil {
		s.notify("gateway names", func() { s.names.SetNames(next.NamesToResolve()) })
	}
	s.notify("count services", func() { s.inputs.RecordSnapshot(next, delta) })
	s.notify("pusher", func() { s.pusher.Publish(next, delta) })
	s.notify("config feed", func() { s.feed.Publish(next) })
	s.notify("analysis", func() { s.analysis.Publish(next, delta) })
	s.notify("versions of objects", func() { s.versions.RecordSnapshot(next) })
}

// notify calls f and recovers its panics, so that one part cannot prevent the others from being
// notified.
func (s *server) notify(part string, f func()) {
	_ = s.recovery.Call("task", func() error { f(); return nil }, "task", part) // The panic has been logged.
}
