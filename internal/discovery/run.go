package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/debug"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/obs"
	"github.com/meshpilot/meshpilot/internal/registry"
	"github.com/meshpilot/meshpilot/internal/registry/kube"
	"github.com/meshpilot/meshpilot/internal/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/source/settings"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Run runs a control plane until the context ends, and returns nil then. Options must be valid.
//
// Ports for people and probes open first, so that a control plane that cannot get its configuration says so. The xDS port
// opens when all sources are in sync: before that a proxy is refused, and keeps what it has.
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

// server is the parts of a control plane.
type server struct {
	options  Options
	logs     *obs.Logs
	log      *slog.Logger
	metrics  metrics
	ready    *readiness
	feeds    []ingest.Feed
	builder  *snapshot.Builder
	table    *translate.Table
	pusher   *push.Pusher
	feed     *feed.Feed
	problems *problems
	pages    *debug.Pages
	inputs   *inputs
	health   *health
	current  atomic.Pointer[snapshot.Snapshot]
}

// newServer makes the parts. It opens nothing and starts nothing.
func newServer(o Options) (*server, error) {
	logs, err := obs.NewLogs(o.Logs)
	if err != nil {
		return nil, err
	}
	s := &server{
		options: o, logs: logs, log: logs.Scope(obs.DefaultScope),
		metrics:  metrics{obs.NewMetrics()},
		ready:    newReadiness(),
		builder:  snapshot.NewBuilder(snapshot.Options{Domain: o.Domain, Cluster: mesh.ClusterID(o.ClusterID), Allocation: o.Allocation, Features: o.Features}),
		table:    translate.NewTable(translate.Options{}),
		problems: newProblems(logs.Scope("analysis")),
	}
	s.current.Store(s.builder.Current())
	if s.feeds, err = s.newFeeds(); err != nil {
		return nil, err
	}
	s.pusher = push.New(push.Options{
		Generators: generators(s.table), Logger: logs.Scope("ads"), Metrics: s.metrics,
		Debounce: push.Debounce{After: o.Push.DebounceAfter, Max: o.Push.DebounceMax, EndpointsAtOnce: o.Push.EndpointsAtOnce},
	})
	s.pages = s.debugPages()
	s.inputs = &inputs{m: s.metrics.m, current: s.current.Load}
	s.health = &health{m: s.metrics.m, pages: s.pages, pusher: s.pusher, snapshot: s.current.Load}
	s.metrics.counters(s.table, s.pusher)
	return s, nil
}

// newFeeds are where config and services come from.
func (s *server) newFeeds() ([]ingest.Feed, error) {
	o := s.options
	settings := &settings.Source{Mesh: o.MeshConfigFile, Networks: o.NetworksConfigFile}
	if err := settings.Check(); err != nil {
		return nil, err
	}
	m, err := settings.Load()
	if err != nil {
		return nil, err
	}
	s.feed = s.newConfigFeed(m)
	config, err := s.configFeeds(m)
	if err != nil {
		return nil, err
	}
	return append([]ingest.Feed{settings}, config...), nil
}

// converters make services of objects. ServiceEntries come first, for the other one takes Namespaces out.
func (s *server) converters() []registry.Converter {
	id := mesh.ClusterID(s.options.ClusterID)
	return []registry.Converter{
		serviceentry.New(serviceentry.Options{Cluster: id}),
		// Nobody makes EndpointSlices of the pods in a folder, so that is done here.
		kube.New(kube.Options{Cluster: id, Domain: s.options.Domain, SystemNamespace: s.options.Namespace, EndpointsFromPods: true}),
	}
}

// generators gives the table in the form in which push takes it: neither room knows the other.
func generators(t *translate.Table) []push.Generator {
	list := make([]push.Generator, 0, len(t.Generators))
	for _, g := range t.Generators {
		list = append(list, push.Generator{
			TypeURL: g.TypeURL, All: g.All, Named: g.Named, Every: g.Every, Update: g.Update, Affected: g.Affected, Touched: g.Touched,
			Inbound: g.Inbound, Local: g.Local, Scope: g.Scope,
		})
	}
	return list
}

func (s *server) run(ctx context.Context) error {
	o := s.options
	if o.SecureGRPCAddr != "" && o.TLSCertFile == "" {
		s.log.Info("not opened: there is no certificate authority yet, and no --tlsCertFile", "flag", "--secureGRPCAddr", "address", o.SecureGRPCAddr)
	}
	if o.HTTPSAddr != "" {
		s.log.Info("not opened: there are no webhooks yet", "flag", "--httpsAddr", "address", o.HTTPSAddr)
	}
	ports, err := s.httpPorts()
	if err != nil {
		return err
	}
	// Probes and debug pages stay until xDS has ended.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	http, serving := errgroup.WithContext(serving)
	for _, l := range ports {
		http.Go(func() error { return serveHTTP(serving, l, s.handler(), o.ShutdownDuration) })
	}
	if l := s.controlZPort(); l != nil {
		http.Go(func() error { return serveHTTP(serving, l, s.logs.ControlZ(), o.ShutdownDuration) })
	}

	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { s.pusher.Run(ctx); return nil })
	parts.Go(func() error { s.problems.run(ctx); return nil })
	parts.Go(func() error {
		return ingest.Run(ctx, ingest.Options{
			Feeds: s.feeds, Converters: s.converters(), Builder: s.builder, Publish: s.publish,
			Observe: s.inputs.observe, Waiting: s.ready.waitingFor, Log: s.logs.Scope("model"),
		})
	})
	parts.Go(func() error { return s.serveXDS(ctx) })
	parts.Go(func() error { // an HTTP port that fails ends the whole
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

// publish hands a snapshot to everybody who wants the newest.
func (s *server) publish(next *snapshot.Snapshot, delta snapshot.Delta) {
	s.current.Store(next)
	s.inputs.published(next, delta)
	s.pusher.Publish(next, delta)
	s.feed.Publish(next)
	s.problems.take(next, delta)
}

// httpPorts opens the ports for people, probes and scrapers.
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
