package discovery

import (
	"context"
	"net/http"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/kube/admission"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// newWebhooks returns the admission webhooks, and holds readiness until they can answer. It returns
// nil, and does not hold readiness, without an API server or a serving certificate.
func (s *server) newWebhooks() *admission.Webhooks {
	o, serving := s.options, s.authority.Serving()
	if s.client == nil || serving == nil {
		return nil
	}
	const name = "webhooks"
	s.ready.Hold(name, "the webhooks' certificate or templates are not there yet")
	return admission.New(admission.Options{
		Settings: o.Webhooks, Address: o.HTTPSAddr, Shutdown: o.ShutdownDuration, TLS: o.TLS,
		Namespace: o.Namespace, Revision: o.Revision, ClusterID: mesh.ClusterID(o.ClusterID),
		Client: s.client, Certificate: serving,
		Mesh:         func() *meshconfig.MeshConfig { return s.current.Load().Settings.Mesh },
		ProxyConfigs: func() []*config.Config { return s.current.Load().Configs(api.ProxyConfig) },
		Warn:         s.admissionWarnings, OnReady: func() { s.ready.Release(name) },
		Metrics: s.metrics.Webhooks, Logs: s.logs, Recovery: s.recovery,
	})
}

// serveWebhooks serves the webhooks until ctx ends, and then returns nil. It returns an error if
// the port cannot be opened or a part of them fails. If there are none, it returns nil at once, and
// logs that if HTTPSAddr is set.
func (s *server) serveWebhooks(ctx context.Context) error {
	if s.webhooks != nil {
		return s.webhooks.Run(ctx)
	}
	if s.options.HTTPSAddr != "" {
		s.log.Info("not opened: there is no API server, or no certificate", "flag", "--httpsAddr", "address", s.options.HTTPSAddr)
	}
	return nil
}

// readRemoteClusters reads the Nodes and Namespaces that injection depends on from the remote
// clusters, until ctx ends. It returns at once without webhooks or remote clusters.
func (s *server) readRemoteClusters(ctx context.Context) {
	if s.webhooks != nil && s.clusters != nil {
		s.clusters.Each(ctx, s.webhooks.ReadRemoteCluster)
	}
}

// addWebhooks adds the paths of the webhooks to an HTTP port if they have no port of their own
// (HTTPSAddr): a proxy in front of the control plane then terminates TLS.
func (s *server) addWebhooks(mux *http.ServeMux) {
	if s.webhooks == nil || s.options.HTTPSAddr != "" {
		return
	}
	for _, path := range []string{"/inject", "/inject/", "/validate", "/validate/"} {
		mux.Handle(path, s.webhooks.Handler())
	}
}

// injects reports whether this control plane injects proxies: it has webhooks with an injector.
func (s *server) injects() bool { return s.webhooks != nil && s.webhooks.Injector() != nil }
