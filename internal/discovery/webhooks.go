package discovery

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/kube/webhook"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// WebhookOptions configures the webhooks that the API server calls on port 15017. Nothing is served
// without an API server or without a certificate.
type WebhookOptions struct {
	// NoInjection disables /inject (default false; set by INJECT_ENABLED=false).
	NoInjection bool
	// InjectionConfigs and ValidationConfigs keep the webhook configurations of this revision up to
	// date. They are found by their label, istio.io/rev. The variables
	// INJECTION_WEBHOOK_CONFIG_NAME and VALIDATION_WEBHOOK_CONFIG_NAME contain names in Istio;
	// here, an empty value disables the option and any other has no effect.
	InjectionConfigs, ValidationConfigs bool
	// NativeSidecars is true, false or auto, which is the default and enables them if all nodes
	// support them (ENABLE_NATIVE_SIDECARS).
	NativeSidecars string
	// OpenShift runs proxies as the user in the annotations of their namespace, because no other is
	// permitted there (set by PLATFORM=openshift).
	OpenShift bool
	// Compliance is the policy for the control plane's own TLS ports and for agents
	// (COMPLIANCE_POLICY). MeshConfig configures TLS between proxies.
	Compliance string
	// Env looks up variables for the template function env. If nil, none is set.
	Env func(string) string
}

func (o WebhookOptions) validate() error {
	if _, err := strconv.ParseBool(o.NativeSidecars); err != nil && o.NativeSidecars != "" && o.NativeSidecars != "auto" {
		return fmt.Errorf("ENABLE_NATIVE_SIDECARS %q: want auto, true or false", o.NativeSidecars)
	}
	return checkCompliance(o.Compliance)
}

// webhooks are the server on port 15017 and its handlers.
type webhooks struct {
	server    *webhook.Server
	injector  *webhook.Injector
	configMap *webhook.ConfigMapWatcher
	// nodes reports where native sidecars are supported. It is nil if NativeSidecars is true or false.
	nodes *webhook.Nodes
	// namespaces returns the user as which proxies of a namespace run. If nil, they run as the
	// default user.
	namespaces *webhook.Namespaces
	configs    *webhook.Configurations
	// looked is closed after the first lookup of the injection templates.
	looked chan struct{}
}

// newWebhooks returns the webhook server and its handlers, and holds readiness until they can
// answer. It returns nil without an API server, a serving certificate or HTTPSAddr.
func (s *server) newWebhooks() *webhooks {
	o, serving := s.options.Webhooks, s.authority.Serving()
	if s.client == nil || serving == nil || s.options.HTTPSAddr == "" {
		return nil
	}
	w := &webhooks{looked: make(chan struct{})}
	s.ready.hold("webhooks", "the webhooks' certificate or templates are not there yet")
	client := s.client.Kubernetes
	if !o.NoInjection {
		w.injector = &webhook.Injector{
			Revision: s.options.Revision, Compliance: o.Compliance, Log: s.logs.Scope("injection"),
			Mesh:         func() *meshconfig.MeshConfig { return s.current.Load().Settings.Mesh },
			ProxyConfigs: func() []*config.Config { return s.current.Load().Configs(api.ProxyConfig) },
		}
		if on, err := strconv.ParseBool(o.NativeSidecars); err == nil {
			w.injector.HasNativeSidecars = func(string) bool { return on }
		} else {
			w.nodes = webhook.NewNodes(client)
			w.injector.HasNativeSidecars = w.nodes.HasNativeSidecars
		}
		if o.OpenShift {
			w.namespaces = webhook.NewNamespaces(client)
			w.injector.ProxyUsers = w.namespaces.ProxyUsers
		}
		w.configMap = &webhook.ConfigMapWatcher{
			Client: client, Namespace: s.options.Namespace, Name: "istio-sidecar-injector" + s.options.revisionSuffix(),
			Env: o.Env, OnUpdate: w.injector.Configure, OnSynced: func() { close(w.looked) },
			Log: s.logs.Scope("injection"),
		}
	}
	w.server = webhook.New(webhook.Options{
		Injector: w.injector, Validator: &webhook.Validator{Warn: s.unhonoured, Log: s.logs.Scope("validation")},
		GetCertificate: serving.GetCertificate, MinVersion: s.options.tlsVersion(), CipherSuites: s.options.cipherSuites(),
		ModifyTLS: func(c *tls.Config) { comply(o.Compliance, c) },
		Metrics:   s.metrics.m.Webhooks, Log: s.logs.Scope("webhooks"), Recovery: s.recovery,
	})
	if o.InjectionConfigs || o.ValidationConfigs {
		revision := s.options.Revision
		if revision == "" {
			revision = "default"
		}
		w.configs = &webhook.Configurations{
			Client: client, Revision: revision, Injection: o.InjectionConfigs && !o.NoInjection, Validation: o.ValidationConfigs,
			CABundle: serving.CABundle, ProbeValidation: webhook.NewValidationProbe(s.client.Dynamic, s.options.Namespace, revision),
			Metrics: s.metrics.m.Webhooks, Log: s.logs.Scope("webhooks"),
		}
	}
	return w
}

// revisionSuffix returns the suffix of the names of a revision's objects; it is empty for the
// default revision.
func (o Options) revisionSuffix() string {
	if o.Revision == "" || o.Revision == "default" {
		return ""
	}
	return "-" + o.Revision
}

// serveWebhooks serves the webhooks until ctx ends. It returns nil at once if there are none, and
// an error if the port cannot be opened.
func (s *server) serveWebhooks(ctx context.Context) error {
	w := s.webhooks
	if w == nil {
		if s.options.HTTPSAddr != "" {
			s.log.Info("not opened: there is no API server, or no certificate", "flag", "--httpsAddr", "address", s.options.HTTPSAddr)
		}
		return nil
	}
	l, err := net.Listen("tcp", s.options.HTTPSAddr)
	if err != nil {
		return fmt.Errorf("--httpsAddr: %w", err)
	}
	s.log.Info("serving webhooks", "address", l.Addr().String())
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return w.server.Serve(ctx, l, s.options.ShutdownDuration) })
	parts.Go(func() error { s.awaitWebhooks(ctx); return nil })
	if w.configMap != nil {
		parts.Go(func() error { return w.configMap.Run(ctx) })
	}
	if w.nodes != nil {
		parts.Go(func() error { return w.nodes.Run(ctx) })
	}
	if w.namespaces != nil {
		parts.Go(func() error { return w.namespaces.Run(ctx) })
	}
	if w.configs != nil {
		parts.Go(func() error { return recovery.Loop(ctx, "webhook configurations", w.configs.Run) })
	}
	return parts.Wait()
}

// awaitWebhooks waits for the serving certificate and for the first lookup of the templates. Then
// it releases the hold on readiness.
func (s *server) awaitWebhooks(ctx context.Context) {
	for {
		bundle, changed := s.authority.Serving().CABundle()
		if len(bundle) > 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	if s.webhooks.configMap != nil {
		select {
		case <-s.webhooks.looked:
		case <-ctx.Done():
			return
		}
	}
	s.ready.release("webhooks")
}
