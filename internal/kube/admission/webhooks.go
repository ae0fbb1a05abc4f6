package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/tlspolicy"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/webhook"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Certificate is the serving certificate of the webhooks.
type Certificate interface {
	// GetCertificate returns the current certificate, or an error if there is none yet.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// CABundle returns the roots that verify the certificate in PEM, or none before there is one,
	// and a channel that is closed when they change.
	CABundle() (pem []byte, changed <-chan struct{})
}

// Options are the settings and dependencies of Webhooks.
type Options struct {
	Settings Settings
	// Address is the address of the port (--httpsAddr). If empty, none is opened, and another port
	// must serve Handler. Shutdown limits how long requests may continue after the stop began.
	Address  string
	Shutdown time.Duration
	TLS      tlspolicy.Policy
	// Namespace and Revision identify the control plane, ClusterID its cluster.
	Namespace, Revision string
	ClusterID           mesh.ClusterID

	Client      *kube.Client
	Certificate Certificate
	// Mesh and ProxyConfigs return the newest mesh configuration and ProxyConfigs. Warn returns
	// Problems of an object under validation, which become warnings.
	Mesh         func() *meshconfig.MeshConfig
	ProxyConfigs func() []*config.Config
	Warn         func(*config.Config) []config.Problem
	// OnReady is called once, when reviews can be answered.
	OnReady func()

	Metrics  *obs.WebhookMetrics
	Logs     *obs.Logs
	Recovery *recovery.Recorder
}

// Webhooks are the server on port 15017 and its handlers.
type Webhooks struct {
	o   Options
	log *slog.Logger

	server *webhook.Server
	// injector and configMap are nil if Settings.Inject is false.
	injector  *webhook.Injector
	configMap *webhook.ConfigMapWatcher
	// local reads the own cluster. It is nil if Settings.Inject is false.
	local  *clusterReaders
	remote remoteReaders
	// templatesRead is closed after the first lookup of the injection templates.
	templatesRead chan struct{}
}

// New returns the webhook server and its handlers. It opens no port and sends no request. Without
// Settings.Inject it only validates.
func New(o Options) *Webhooks {
	w := &Webhooks{
		o: o, log: o.Logs.Scope("webhooks"), templatesRead: make(chan struct{}),
		remote: remoteReaders{byCluster: map[mesh.ClusterID]*clusterReaders{}},
	}
	if o.Settings.Inject {
		w.addInjection()
	}
	w.server = webhook.New(webhook.Options{
		Injector: w.injector, Validator: &webhook.Validator{Warn: o.Warn, Log: o.Logs.Scope("validation")},
		GetCertificate: o.Certificate.GetCertificate,
		MinVersion:     o.TLS.MinVersionID(), CipherSuites: o.TLS.CipherSuiteIDs(), ModifyTLS: o.TLS.ApplyCompliance,
		Metrics: o.Metrics, Log: w.log, Recovery: o.Recovery,
	})
	return w
}

// addInjection creates the injector and the readers of its inputs: nodes, namespaces on OpenShift,
// and the templates' ConfigMap istio-sidecar-injector, with "-" and the revision unless that is
// default. Nodes are read to detect native sidecars, unless Settings.NativeSidecars is a boolean,
// which then decides.
func (w *Webhooks) addInjection() {
	o, client := w.o, w.o.Client.Kubernetes
	w.injector = &webhook.Injector{
		Revision: o.Revision, Compliance: o.TLS.Compliance, Mesh: o.Mesh, ProxyConfigs: o.ProxyConfigs,
		Log: o.Logs.Scope("injection"),
	}
	w.local = w.newReaders(client)
	if native, known := o.Settings.nativeSidecars(); known {
		w.injector.HasNativeSidecars = func(mesh.ClusterID, string) bool { return native }
	} else {
		w.injector.HasNativeSidecars = w.hasNativeSidecars
	}
	if o.Settings.OpenShift {
		w.injector.ProxyUsers = w.proxyUsers
	}
	name := "istio-sidecar-injector"
	if o.Revision != "" && o.Revision != "default" {
		name += "-" + o.Revision
	}
	w.configMap = &webhook.ConfigMapWatcher{
		Client: client, Namespace: o.Namespace, Name: name, Env: o.Settings.Env,
		OnUpdate: w.injector.Configure, OnSynced: func() { close(w.templatesRead) }, Log: o.Logs.Scope("injection"),
	}
}

// Injector returns the injector, or nil if Settings.Inject is off.
func (w *Webhooks) Injector() *webhook.Injector { return w.injector }

// Handler returns the handler of /inject and /validate for an HTTP port without TLS.
func (w *Webhooks) Handler() http.Handler { return w.server.PlainHandler() }

// Run serves the webhooks, if there is an Address, and runs their parts until ctx ends, and then
// returns nil. It returns an error if the port cannot be opened or a part fails. If a part fails,
// the others are stopped. Writing the webhook configurations is retried instead.
func (w *Webhooks) Run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	if w.o.Address != "" {
		l, err := net.Listen("tcp", w.o.Address)
		if err != nil {
			return fmt.Errorf("--httpsAddr: %w", err)
		}
		w.o.Logs.Scope(obs.DefaultScope).Info("serving webhooks", "address", l.Addr().String())
		parts.Go(func() error { return w.server.Serve(ctx, l, w.o.Shutdown) })
	}
	parts.Go(func() error { w.awaitReady(ctx); return nil })
	if w.configMap != nil {
		parts.Go(func() error { return w.configMap.Run(ctx) })
	}
	if w.local != nil {
		parts.Go(func() error { return w.local.run(ctx) })
	}
	if c := w.configurations(); c != nil {
		parts.Go(func() error { return recovery.Loop(ctx, "webhook configurations", c.Run) })
	}
	return parts.Wait()
}

// awaitReady waits for the serving certificate and for the first lookup of the templates, and then
// calls OnReady. It returns without calling it if ctx ends. Without injection, templates are not
// awaited.
func (w *Webhooks) awaitReady(ctx context.Context) {
	for {
		bundle, changed := w.o.Certificate.CABundle()
		if len(bundle) > 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	if w.configMap != nil {
		select {
		case <-w.templatesRead:
		case <-ctx.Done():
			return
		}
	}
	w.o.OnReady()
}

// configurations returns the task that maintains the webhook configurations of the own cluster, or
// nil if neither Settings.InjectionConfigs nor ValidationConfigs is set. Injection configurations
// are maintained only if Settings.Inject is set too; without it, InjectionConfigs alone returns a
// task that maintains none.
func (w *Webhooks) configurations() *webhook.Configurations {
	s := w.o.Settings
	if !s.InjectionConfigs && !s.ValidationConfigs {
		return nil
	}
	c := w.newConfigurations(w.o.Client.Kubernetes)
	c.Injection, c.Validation = s.InjectionConfigs && s.Inject, s.ValidationConfigs
	c.ProbeValidation = webhook.NewValidationProbe(w.o.Client.Dynamic, w.o.Namespace, c.Revision)
	return c
}

// KeepsRemoteConfigurations reports whether KeepRemoteConfigurations must run for remote clusters.
// They are kept only if this control plane injects and keeps injection configurations.
func (w *Webhooks) KeepsRemoteConfigurations() bool {
	return w.o.Settings.InjectionConfigs && w.o.Settings.Inject
}

// KeepRemoteConfigurations maintains the CA bundle of the injection webhooks of a remote cluster
// until ctx ends. It returns an error in the cases of Configurations.Run.
func (w *Webhooks) KeepRemoteConfigurations(ctx context.Context, id mesh.ClusterID, client *kube.Client) error {
	c := w.newConfigurations(client.Kubernetes)
	c.Injection, c.Log = true, c.Log.With("cluster", string(id))
	return c.Run(ctx)
}

// newConfigurations returns a task for the webhook configurations of this revision in client's
// cluster, in which nothing is enabled yet.
func (w *Webhooks) newConfigurations(client kubernetes.Interface) *webhook.Configurations {
	revision := w.o.Revision
	if revision == "" {
		revision = "default"
	}
	return &webhook.Configurations{
		Client: client, Revision: revision, CABundle: w.o.Certificate.CABundle, Metrics: w.o.Metrics, Log: w.log,
	}
}
