package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/manifests"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// patience bounds every wait for the API server.
const patience = 15 * time.Second

// roots are those of a certificate that changes.
type roots struct {
	mu      sync.Mutex
	ca      *pki.Pair
	leaf    tls.Certificate
	changed chan struct{}
}

func newRoots() *roots {
	r := &roots{changed: make(chan struct{})}
	r.rotate()
	return r
}

func (r *roots) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ca = pki.Authority("webhooks")
	r.leaf = r.ca.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}).TLS()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *roots) bundle() ([]byte, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ca.CertificatePEM(), r.changed
}

func (r *roots) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.leaf, nil
}

// builtin is the configuration of the chart's templates and values.
func builtin(t testing.TB) (*inject.Config, inject.Values) {
	t.Helper()
	templates, err := manifests.InjectionTemplates()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"policy": "enabled", "templates": templates})
	if err != nil {
		t.Fatal(err)
	}
	config, err := inject.ParseConfig(text, nil)
	if err != nil || len(config.Faults) > 0 {
		t.Fatal(err, config.Faults)
	}
	if text, err = manifests.InjectionValues(); err != nil {
		t.Fatal(err)
	}
	values, err := inject.ParseValues(text)
	if err != nil {
		t.Fatal(err)
	}
	return config, values
}

// fixture is a webhook server on loopback that an API server calls.
type fixture struct {
	client   *kubernetes.Clientset
	cluster  *cluster.Cluster
	roots    *roots
	metrics  *obs.Metrics
	injector *Injector
	url      string
	revision string
	part     func(run func(context.Context) error) // runs something until the test ends
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := shared.Start(t)
	f := &fixture{
		client:   c.Client(t),
		cluster:  c,
		roots:    newRoots(),
		metrics:  obs.NewMetrics(),
		revision: "rev-" + fmt.Sprint(time.Now().UnixNano()),
	}
	f.injector = &Injector{
		Mesh: func() *meshconfig.MeshConfig { return mesh.DefaultMeshConfig() },
		Log:  slog.New(slog.DiscardHandler),
	}
	f.injector.Configure(builtin(t))
	s := New(Options{
		Injector:       f.injector,
		Validator:      &Validator{Log: slog.New(slog.DiscardHandler)},
		GetCertificate: f.roots.certificate,
		Metrics:        f.metrics.Webhooks,
		Log:            slog.New(slog.DiscardHandler),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "https://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	f.part = func(run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	f.part(func(ctx context.Context) error { return s.Serve(ctx, l, time.Second) })
	t.Cleanup(func() {
		cancel()
		parts.Wait()
	})
	return f
}

// runConfigurations runs Configurations.
func (f *fixture) runConfigurations(change func(*Configurations)) {
	c := &Configurations{
		Client: f.client, Revision: f.revision, Injection: true, Validation: true, CABundle: f.roots.bundle,
		Metrics: f.metrics.Webhooks, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(c)
	}
	f.part(c.Run)
}

// injection creates a configuration by which pods of a namespace are injected, without a caBundle.
func (f *fixture) injection(t *testing.T, name, namespace, path string) {
	t.Helper()
	url, fail, none := f.url+path, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	_, err := f.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(
		t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"istio.io/rev": f.revision}},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				{
					Name:                    "namespace.sidecar-injector.istio.io",
					ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url},
					FailurePolicy:           &fail,
					SideEffects:             &none,
					AdmissionReviewVersions: []string{"v1"},
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
					},
					Rules: []admissionregistrationv1.RuleWithOperations{
						{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule: admissionregistrationv1.Rule{
								APIGroups:   []string{""},
								APIVersions: []string{"v1"},
								Resources:   []string{"pods"},
							},
						},
					},
				},
			},
		},
		metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(
			context.Background(),
			name,
			metav1.DeleteOptions{},
		)
	})
}

// trusted waits until the API server trusts the current certificate for injection.
func (f *fixture) trusted(t *testing.T, name string) {
	t.Helper()
	serving.Eventually(t, patience, "the caBundle of the webhooks", func() error {
		m, err := f.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(
			t.Context(),
			name,
			metav1.GetOptions{},
		)
		if err != nil {
			return err
		}
		if want, _ := f.roots.bundle(); string(m.Webhooks[0].ClientConfig.CABundle) != string(want) {
			return fmt.Errorf("the caBundle is %q", m.Webhooks[0].ClientConfig.CABundle)
		}
		return nil
	})
}

// validation creates a configuration by which objects of a namespace are validated: without a caBundle, and open.
func (f *fixture) validation(t *testing.T, name, namespace string) {
	t.Helper()
	url, ignore, none := f.url+"/validate", admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone
	_, err := f.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(
		t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"istio.io/rev": f.revision}},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{
					Name:                    "rev.validation.istio.io",
					ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url},
					FailurePolicy:           &ignore,
					SideEffects:             &none,
					AdmissionReviewVersions: []string{"v1"},
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
					},
					Rules: []admissionregistrationv1.RuleWithOperations{
						{
							Operations: []admissionregistrationv1.OperationType{
								admissionregistrationv1.Create,
								admissionregistrationv1.Update,
							},
							Rule: admissionregistrationv1.Rule{
								APIGroups: []string{
									"networking.istio.io",
									"security.istio.io",
								},
								APIVersions: []string{"*"},
								Resources:   []string{"*"},
							},
						},
					},
				},
			},
		},
		metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(
			context.Background(),
			name,
			metav1.DeleteOptions{},
		)
	})
}

// closed waits until the failurePolicy of validation is Fail.
func (f *fixture) closed(t *testing.T, name string) {
	t.Helper()
	serving.Eventually(t, patience, "validation fails closed", func() error {
		v, err := f.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(
			t.Context(),
			name,
			metav1.GetOptions{},
		)
		if err != nil {
			return err
		}
		if p := *v.Webhooks[0].FailurePolicy; p != admissionregistrationv1.Fail {
			return fmt.Errorf("the failurePolicy is %s", p)
		}
		return nil
	})
}
