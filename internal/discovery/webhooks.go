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

// WebhookOptions are what the API server asks on port 15017. Without an API server, or a certificate, nothing is served.
type WebhookOptions struct {
	// NoInjection serves no /inject. INJECT_ENABLED=false.
	NoInjection bool
	// InjectionConfigs and ValidationConfigs have the webhook configurations of our revision kept up to date. They are found by
	// their label, istio.io/rev. INJECTION_WEBHOOK_CONFIG_NAME and VALIDATION_WEBHOOK_CONFIG_NAME, which are names in Istio,
	// and here, as there, only count for being empty.
	InjectionConfigs, ValidationConfigs bool
	// NativeSidecars is true, false, or auto, which empty is: where all nodes can run them. ENABLE_NATIVE_SIDECARS.
	NativeSidecars string
	// OpenShift has proxies run as the users that their namespaces' annotations name, for others may not run there.
	// PLATFORM=openshift.
	OpenShift bool
	// Compliance is COMPLIANCE_POLICY: how the ports with TLS are served, and what agents are told. What proxies speak among
	// each other is MeshConfig's to say.
	Compliance string
	// Env is what the template function env looks up; nil: nothing.
	Env func(string) string
}

func (o WebhookOptions) validate() error {
	if _, err := strconv.ParseBool(o.NativeSidecars); err != nil && o.NativeSidecars != "" && o.NativeSidecars != "auto" {
		return fmt.Errorf("ENABLE_NATIVE_SIDECARS %q: want auto, true or false", o.NativeSidecars)
	}
	return checkCompliance(o.Compliance)
}

// webhooks is port 15017 and what is behind it.
type webhooks struct {
	server    *webhook.Server
	injector  *webhook.Injector
	configMap *webhook.ConfigMapWatcher
	// nodes says where sidecars may be native; nil: that is settled.
	nodes *webhook.Nodes
	// namespaces says whom proxies run as; nil: as the usual user.
	namespaces *webhook.Namespaces
	configs    *webhook.Configurations
	// looked is closed once the templates were looked for.
	looked chan struct{}
}

// newWebhooks makes the parts, nil if there is nobody to ask them, or no certificate to answer with.
func (s *server) newWebhooks() *webhooks {
	o, serving := s.options.Webhooks, s.authority.serving
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

// revisionSuffix is what the names of a revision's objects end with; those of the default one end with nothing.
func (o Options) revisionSuffix() string {
	if o.Revision == "" || o.Revision == "default" {
		return ""
	}
	return "-" + o.Revision
}

// serveWebhooks serves until the context ends. The control plane is not ready before it could answer a pod's creation.
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

// awaitWebhooks says that the control plane may be ready once there is a certificate, and the templates were looked for.
func (s *server) awaitWebhooks(ctx context.Context) {
	for {
		bundle, changed := s.authority.serving.CABundle()
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
