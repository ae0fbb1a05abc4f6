package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/memory"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/identity/authority"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/ingest/source/hostname"
	"github.com/meshpilot/meshpilot/internal/ingest/source/settings"
	kubeclient "github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/export"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Run runs a control plane until ctx ends, and then returns nil. The options must be valid.
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
	options  Options
	logs     *obs.Logs
	log      *slog.Logger
	metrics  metrics
	recovery *recovery.Recorder
	ready    *readiness
	client   *kubeclient.Client // nil without an API server
	settings *settings.Source
	sources  []ingest.Feed // settings, config and services; nil until the mesh configuration, which selects them, is known
	feeds    []ingest.Feed // all others, see otherFeeds
	builder  *snapshot.Builder
	table    *translate.Table
	pusher   *push.Pusher
	feed     *feed.Feed
	analysis *analysis.Background
	pages    *debug.Pages
	inputs   *inputs
	health   *health
	current  atomic.Pointer[snapshot.Snapshot]

	credentials *credentials     // nil without an API server
	pullSecrets *pullSecrets     // nil without an API server
	clusters    *remote.Clusters // nil without an API server
	names       *hostname.Source // nil if names are not resolved
	clusterSets *clusterSets
	ingresses   *ingress.Converter
	gateways    *gatewayapi.Converter
	elections   *leader.Elections // nil without an API server
	status      *statusWriter     // nil without an API server
	// gatewayWriter is nil if config objects are not read from an API server.
	gatewayWriter *gatewayWriter
	exporter      *export.Exporter // nil if services are not exported
	workloads     *workloads
	issuers       *issuers
	bundles       *bundles

	authority       *authority.Server
	webhooks        *webhooks // nil without an API server or certificate
	settingsChanged notify.Broadcast
}

// newServer creates the parts. It opens no port and starts no goroutine.
func newServer(o Options) (*server, error) {
	logs, err := obs.NewLogs(o.Logs)
	if err != nil {
		return nil, err
	}
	m := newMetrics()
	panics := newRecovery(logs, m.m)
	s := &server{
		options: o, logs: logs, log: logs.Scope(obs.DefaultScope),
		metrics: m, recovery: panics,
		ready: newReadiness(),
		builder: snapshot.NewBuilder(snapshot.Options{
			Domain: o.Domain, Cluster: mesh.ClusterID(o.ClusterID), Allocation: o.Allocation, Features: o.Features, Recovery: panics,
		}),
		table:       translate.NewTable(translate.Options{}),
		clusterSets: newClusterSets(),
	}
	s.ingresses = ingress.New(ingress.Options{Namespace: o.Registry.IngressNamespace, Domain: o.Domain, Recovery: panics, OnNodeAddressesChanged: func() {
		if s.status != nil {
			s.status.book.Notify()
		}
	}})
	s.gateways = s.newGateways()
	s.analysis = s.newAnalysis()
	s.current.Store(s.builder.Current())
	for _, part := range []func() error{s.makeReaders, s.makeServers, s.makeWriters, s.openSources} { // Each may use the parts created before it.
		if err := part(); err != nil {
			return nil, err
		}
	}
	s.feeds = s.otherFeeds()
	return s, nil
}

// makeReaders creates the readers of API servers and the resolver of gateway names.
func (s *server) makeReaders() (err error) {
	if s.client, err = s.options.newClient(); err != nil {
		return err
	}
	s.elections = s.newElections()
	if s.client != nil {
		s.credentials = s.newCredentials(s.client)
		s.pullSecrets = newPullSecrets(s.credentials)
	}
	s.names = s.newNames()
	s.clusters, err = s.newClusters()
	return err
}

// makeServers creates the parts that serve proxies, API servers and users.
func (s *server) makeServers() (err error) {
	o := s.options.Push
	s.pusher = push.New(push.Options{
		Generators: s.table.Generators, Logger: s.logs.Scope("ads"), Metrics: s.metrics, Recovery: s.recovery,
		Secrets:  s.secretsAsked(),
		Debounce: push.Debounce{After: o.DebounceAfter, Max: o.DebounceMax, EndpointsAtOnce: o.EndpointsAtOnce},
		Names:    s.options.Names,
	})
	if s.authority, err = s.newAuthority(); err != nil {
		return err
	}
	s.webhooks = s.newWebhooks()
	s.pages = s.debugPages()
	s.inputs = &inputs{m: s.metrics.m, current: s.current.Load}
	s.health = &health{m: s.metrics.m, pages: s.pages, pusher: s.pusher, snapshot: s.current.Load}
	s.metrics.counters(s.table, s.pusher)
	return nil
}

// makeWriters creates the parts that write or fetch external state: status, exported services, keys
// of issuers, trust bundles and registered workloads.
func (s *server) makeWriters() (err error) {
	if s.status, err = s.newStatus(); err != nil {
		return err
	}
	if s.gatewayWriter, err = s.newGatewayWriter(); err != nil {
		return err
	}
	if s.exporter, err = s.newExporter(); err != nil {
		return err
	}
	if s.issuers, err = s.newIssuers(); err != nil {
		return err
	}
	if s.bundles, err = newBundles(s.options.Issuers, s.logs.Scope("security")); err != nil {
		return err
	}
	s.workloads = s.newWorkloads()
	return nil
}

// otherFeeds returns the feeds of the parts: all except the sources of settings, config and
// services.
func (s *server) otherFeeds() []ingest.Feed {
	list := []ingest.Feed{s.authority.RootsFeed(), s.issuers, s.bundles}
	if s.client != nil {
		list = append(list, s.credentials, s.credentials.remote, s.pullSecrets)
	}
	if s.clusters != nil {
		list = append(list, s.clusters)
	}
	if s.names != nil {
		list = append(list, s.names)
	}
	if s.workloads.memory != nil {
		list = append(list, s.workloads.memory)
	}
	return list
}

// openSources creates the sources if the mesh configuration is in files. Otherwise awaitSources
// creates them after the API server has answered.
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

// run starts all parts and blocks until ctx ends or a part fails.
func (s *server) run(ctx context.Context) error {
	ctx = recovery.NewContext(kubeclient.WithDebugLogging(ctx, s.logs.Scope("kube")), s.recovery)
	o := s.options
	if o.SecureGRPCAddr != "" && o.TLSCertFile == "" && s.authority.Serving() == nil {
		s.log.Info("not opened: there is no certificate authority (--caDir, or a Kubernetes cluster), and no --tlsCertFile", "flag", "--secureGRPCAddr", "address", o.SecureGRPCAddr)
	}
	ports, err := s.httpPorts()
	if err != nil {
		return err
	}
	// Probes and debug pages are served until xDS has ended.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	http, serving := errgroup.WithContext(serving)
	for _, l := range ports {
		http.Go(func() error { return serveHTTP(serving, l, s.handler(), o.ShutdownDuration, s.log) })
	}
	if l := s.controlZPort(); l != nil {
		http.Go(func() error { return serveHTTP(serving, l, s.logs.ControlZ(), o.ShutdownDuration, s.log) })
	}

	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { s.pusher.Run(ctx); return nil })
	parts.Go(func() error { memory.ReleaseAfterBursts(ctx); return nil })
	parts.Go(func() error { restarting("analysis", s.analysis.Run)(ctx); return nil })
	parts.Go(func() error {
		if err := s.awaitSources(ctx); err != nil {
			return err
		}
		return ingest.Run(ctx, ingest.Options{
			Feeds: append(s.sources, s.feeds...), Filters: s.filters(), Converters: s.converters(), Builder: s.builder, Publish: s.publish,
			Observe: s.observe, Waiting: s.waitingFor, Log: s.logs.Scope("model"), Recovery: s.recovery,
		})
	})
	parts.Go(func() error { return s.authority.Run(ctx) })
	parts.Go(func() error { s.lookAfterClusters(ctx); return nil })
	parts.Go(func() error { s.followClusters(ctx); return nil })
	parts.Go(func() error { return s.serveXDS(ctx) })
	parts.Go(func() error { return s.serveWebhooks(ctx) })
	parts.Go(func() error { return s.workloads.run(ctx) })
	parts.Go(func() error { return s.runExports(ctx) })
	parts.Go(func() error { return s.gatewayWriter.run(ctx) })
	if s.status != nil {
		parts.Go(func() error { return s.status.run(ctx) })
	}
	parts.Go(func() error { // An HTTP port that fails stops the control plane.
		select {
		case <-serving.Done():
			return http.Wait()
		case <-ctx.Done():
			return nil
		}
	})
	err = parts.Wait()
	stopServing()
	if failed := http.Wait(); err == nil {
		err = failed
	}
	return err
}

// observe passes a batch to all parts that need it before it is applied.
func (s *server) observe(batch mesh.Batch) {
	s.notify("count inputs", func() { s.inputs.observe(batch) })
	s.notify("workloads", func() { s.workloads.HandleEvents(batch) })
	if s.clusters != nil {
		s.notify("remote clusters", func() { s.clusters.Observe(batch) })
	}
	if s.status != nil {
		s.notify("status", func() { s.status.book.RecordBatch(batch) })
	}
}

// publish makes next the current snapshot and notifies all parts. The status writer is notified
// before the snapshot becomes current.
func (s *server) publish(next *snapshot.Snapshot, delta snapshot.Delta) {
	if s.status != nil {
		s.notify("status", func() { s.status.published(next, delta) })
	}
	if previous := s.current.Swap(next); previous.Settings != next.Settings {
		s.settingsChanged.Notify()
	}
	s.notify("exports", func() { s.lookAtExports(delta) })
	s.notify("token issuers", func() { s.issuers.published(next, delta) })
	s.notify("trust bundles", func() { s.bundles.published(next, delta) })
	if s.credentials != nil {
		s.notify("credentials", s.credentials.published)
		s.notify("pull secrets", s.pullSecrets.hold.StartHolding) // The first snapshot is that of the start.
	}
	if s.names != nil {
		s.notify("gateway names", func() { s.names.SetNames(next.NamesToResolve()) })
	}
	s.notify("count services", func() { s.inputs.published(next, delta) })
	s.notify("pusher", func() { s.pusher.Publish(next, delta) })
	s.notify("config feed", func() { s.feed.Publish(next) })
	s.notify("analysis", func() { s.analysis.Publish(next, delta) })
}

// httpPorts opens the ports for readiness, debug pages and metrics. If one cannot be opened, it
// closes the others and returns an error.
func (s *server) httpPorts() ([]net.Listener, error) {
	var list []net.Listener
	for _, p := range []struct{ flag, address string }{{"--httpAddr", s.options.HTTPAddr}, {"--monitoringAddr", s.options.MonitoringAddr}} {
		if p.address == "" {
			continue
		}
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			for _, open := range list {
				_ = open.Close() // nothing was served on it
			}
			return nil, fmt.Errorf("%s: %w", p.flag, err)
		}
		s.log.Info("serving HTTP", "address", l.Addr().String())
		list = append(list, l)
	}
	return list, nil
}
