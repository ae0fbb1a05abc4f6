package discovery

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
	"github.com/meshpilot/meshpilot/internal/diagnostics/console"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// readHeaderTimeout limits how long a client of the HTTP ports may take to send its headers.
const readHeaderTimeout = 10 * time.Second

// debugPages returns the pages under /debug. The injection templates are among them only if this
// control plane injects proxies. Streams can be closed only with Debug.Admin.
func (s *server) debugPages() *debug.Pages {
	o := debug.Options{
		Snapshot: s.current.Load, Analysis: s.analysisProblems, Conflicts: s.table.ConflictsOf,
		Unserved: s.table.Unserved, Proxies: s.pusher.Reports(), Push: s.pusher.PushAll, Waiting: s.ready.Waiting,
		Cluster: mesh.ClusterID(s.options.ClusterID), Profile: s.options.Profile, Now: time.Now, Scopes: s.logs.Scopes,
		Complete:   func(list []config.Problem) []config.Problem { return s.positions.Locate(list, s.config) },
		Clusters:   func() []debug.Cluster { return debug.RemoteClusters(s.clusters.Status()) },
		ClusterSet: func() []debug.ClusterSetService { return debug.ClusterSetServices(s.clusterSetServices()) },
		Refused:    func() []config.Problem { return s.refused.Problems(time.Now()) },
		Access: debug.Access{
			Authenticate: s.authority.RequestNamespace, AnyNamespace: s.options.Debug.AnyNamespace,
			SystemNamespaces: append([]string{s.options.Namespace}, s.options.Debug.AllowedNamespaces...),
		},
	}
	if s.injects() {
		o.Templates = s.webhooks.Injector().Templates
	}
	if s.options.Debug.Admin {
		o.Disconnect = s.pusher.Disconnect
	}
	return debug.New(o)
}

// readAPI returns the read API. It has the traffic between services only with PrometheusURL.
// Streams of events end when stopping is closed; if nil, they do not.
func (s *server) readAPI(stopping <-chan struct{}) *readapi.API {
	reports := s.pusher.Reports()
	o := readapi.Options{
		Snapshot: s.current.Load, Track: reports.TrackObject, Connections: reports.Connections, Stopping: stopping,
		StreamStates: reports.StreamStates, Connection: reports.Connection, Uses: reports.ObjectUses, Recovery: s.recovery,
		Versions: s.versions.Versions, ChangeProgress: reports.ChangeProgress, Problems: s.pages.Problems,
		Pages: s.pages, Access: s.pages.Access, Replica: s.options.PodName, Peers: s.options.ReadAPIPeers(),
		Registries: s.registries, Preview: s.previews.Preview, Table: s.table, Unhonoured: s.unhonoured,
		Changes: func() []push.Change { return reports.Changes(readapi.BehindAfter) },
		Certificates: func() []readapi.Certificate {
			return readapi.CertificatesOf(s.current.Load(), s.authority.Inventory())
		},
	}
	if s.traffic != nil {
		o.Traffic = s.traffic.Calls
	}
	return readapi.New(o)
}

// handler returns the handler for readiness, the read API, the web console, metrics and version,
// with Debug.HTTP for the debug pages, and without HTTPSAddr for the webhooks. Both HTTP ports
// serve it. Streams of events end when stopping is closed.
func (s *server) handler(stopping <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(readapi.Prefix+"/", s.readAPI(stopping))
	mux.Handle(console.Prefix, console.New(s.pages.Access))
	mux.Handle("/ready", s.ready)
	if s.options.Debug.HTTP {
		mux.Handle("/debug", s.pages)
		mux.Handle("/debug/", s.pages)
	}
	mux.Handle("/metrics", s.health.Handler(promhttp.HandlerFor(s.metrics.Registry, promhttp.HandlerOpts{})))
	mux.Handle("/version", obs.ReadBuild())
	s.addWebhooks(mux)
	return serve.Handler(s.recovery, mux)
}

// registries returns the state of the sources and remote clusters. It returns none until the mesh
// configuration, which selects the sources, is known.
func (s *server) registries() []readapi.Registry {
	clusters := debug.RemoteClusters(s.clusters.Status())
	return readapi.RegistriesOf(s.openedSources.Load(), s.ready.Waiting(), clusters, time.Now())
}

// httpOptions returns the options of an HTTP port that serves h.
func (s *server) httpOptions(h http.Handler) httpserver.Options {
	shutdown := s.options.ShutdownDuration
	return httpserver.Options{Handler: h, HeaderTimeout: readHeaderTimeout, Shutdown: shutdown, Log: s.log}
}
