package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/kube/webhook"
	"github.com/meshpilot/meshpilot/internal/model/retired"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// validators are the templates of the webhooks that review objects without and with a revision.
var validators = map[string]string{"base": "templates/default-validator.yaml", "istiod": "templates/validatingwebhook.yaml"}

// TestRetiredGroupsAreReviewed: the validation webhooks of the charts are called for the groups of all
// retired kinds.
func TestRetiredGroupsAreReviewed(t *testing.T) {
	h := newHelm(t, "")
	for name, template := range validators {
		groups := reviewedGroups(t, h.run(t, "template", "x", chart(name), "-n", "istio-system", "--show-only", template))
		for _, k := range retired.Kinds() {
			if !slices.Contains(groups, k.Group) {
				t.Errorf("chart %s: objects of %s are not reviewed, only those of %v", name, k.Group, groups)
			}
		}
	}
}

// reviewedGroups returns the API groups in the rules of the webhooks of a manifest.
func reviewedGroups(t *testing.T, manifest string) (groups []string) {
	t.Helper()
	for _, o := range objects(t, manifest) {
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, hook := range hooks {
			rules, _, err := unstructured.NestedSlice(hook.(map[string]any), "rules")
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules {
				list, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups") // absent has none
				groups = append(groups, list...)
			}
		}
	}
	return groups
}

// retiredObjects are resources of testdata/retired.yaml, with the successor in the warning about an
// object.
var retiredObjects = []struct {
	resource                   schema.GroupVersionResource
	kind, namespace, successor string
}{
	{schema.GroupVersionResource{Group: "authentication.istio.io", Version: "v1alpha1", Resource: "meshpolicies"}, "MeshPolicy", "", "use PeerAuthentication in the root namespace"},
	{schema.GroupVersionResource{Group: "rbac.istio.io", Version: "v1alpha1", Resource: "clusterrbacconfigs"}, "ClusterRbacConfig", "", "use AuthorizationPolicy"},
	{schema.GroupVersionResource{Group: "config.istio.io", Version: "v1alpha2", Resource: "memquotas"}, "memquota", "shop", "there is no Mixer"},
	{schema.GroupVersionResource{Group: "install.istio.io", Version: "v1alpha1", Resource: "istiooperators"}, "IstioOperator", "shop", "use the Helm charts"},
}

// TestRetiredKinds: an API server accepts objects of retired kinds, with the warnings of the webhooks
// of the charts, whether they have a revision or not. pilotctl finds the stored objects.
func TestRetiredKinds(t *testing.T) {
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{})
	createNamespace(t, c, "shop")
	runPilotctl(t, 0, "analyze", "--cluster", "--kubeconfig", c.Kubeconfig())

	if err := c.InstallCRDs(t.Context(), filepath.Join("testdata", "retired.yaml")); err != nil {
		t.Fatal(err)
	}
	applyValidators(t, c, newHelm(t, ""))
	var found []string
	for _, o := range retiredObjects {
		for name, labels := range map[string]map[string]string{"plain": nil, "revised": {"istio.io/rev": "default"}} {
			object := unstructuredOf(map[string]any{"apiVersion": o.resource.GroupVersion().String(), "kind": o.kind})
			object.SetName(name)
			object.SetLabels(labels)
			createWithWarning(t, c, o.resource, o.namespace, object, o.successor)
			found = append(found, strings.TrimSuffix(o.kind+" "+name+"."+o.namespace, ".")+" ")
		}
		found = append(found, o.successor)
	}
	runPilotctl(t, 79, "analyze", "--cluster", "--kubeconfig", c.Kubeconfig()).want(t, found...)
	runPilotctl(t, 79, "check-migration", "--kubeconfig", c.Kubeconfig()).want(t, found...)

	// A user who may list the objects of one of the groups only.
	rule := rbacv1.PolicyRule{APIGroups: []string{"rbac.istio.io"}, Resources: []string{"*"}, Verbs: []string{"list"}}
	c.Grant(t, cluster.User("reader"), rule)
	reader := c.KubeconfigOf(t, c.UserConfig("reader"))
	serving.Eventually(t, time.Minute, "the user may list", func() error {
		return runPilotctl(t, 79, "analyze", "--cluster", "--kubeconfig", reader).contains(
			"ClusterRbacConfig plain ",
			"warning: no permission to list meshpolicies.authentication.istio.io: objects of this retired kind are not reported")
	})
}

// applyValidators starts a webhook server and creates the webhooks of the charts, which call it.
func applyValidators(t *testing.T, c *cluster.Cluster, h helm) {
	t.Helper()
	authority := pki.Authority("webhooks")
	certificate := authority.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}).TLS()
	log := slog.New(slog.DiscardHandler)
	s := webhook.New(webhook.Options{
		Validator:      &webhook.Validator{Log: log},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
		Metrics:        obs.NewMetrics().Webhooks, Log: log,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for name, template := range validators {
		manifest := h.run(t, "template", "x", chart(name), "-n", "istio-system", "--show-only", template,
			"--set", "base.validationURL=https://"+l.Addr().String()+"/validate",
			"--set", "base.validationCABundle="+base64.StdEncoding.EncodeToString(authority.CertificatePEM()))
		if err := c.Apply(t.Context(), manifest); err != nil {
			t.Fatal(err)
		}
	}
}

// createWithWarning creates an object when the API server calls the webhook for it, and expects a
// warning with a text.
func createWithWarning(
	t *testing.T,
	c *cluster.Cluster,
	resource schema.GroupVersionResource,
	namespace string,
	object *unstructured.Unstructured,
	want string,
) {
	t.Helper()
	warnings := &recordedWarnings{}
	config := c.Config()
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(o metav1.CreateOptions) error {
		warnings.texts = nil
		if _, err := client.Resource(resource).Namespace(namespace).Create(t.Context(), object, o); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(warnings.texts, "\n"); !strings.Contains(text, want) {
			return fmt.Errorf("%s %s: the warnings are %q, want %q", object.GetKind(), object.GetName(), text, want)
		}
		return nil
	}
	serving.Eventually(t, time.Minute, "the webhook is called", func() error {
		return create(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
	if err := create(metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// recordedWarnings are the warnings of an API server.
type recordedWarnings struct{ texts []string }

// HandleWarningHeader records a warning.
func (w *recordedWarnings) HandleWarningHeader(_ int, _, text string) {
	w.texts = append(w.texts, text)
}

// output is the standard output and the standard error of a command, one after the other.
type output string

// contains returns an error for the first text that is missing.
func (o output) contains(texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(string(o), text) {
			return fmt.Errorf("the output lacks %q:\n%s", text, o)
		}
	}
	return nil
}

func (o output) want(t *testing.T, texts ...string) {
	t.Helper()
	if err := o.contains(texts...); err != nil {
		t.Error(err)
	}
}

// runPilotctl runs a command of pilotctl and checks its exit code.
func runPilotctl(t *testing.T, code int, args ...string) output {
	t.Helper()
	command := cli.New()
	var out, warnings bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&warnings)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	if cli.ExitCode(err) != code {
		t.Errorf("pilotctl %v: %v (exit code %d), want %d", args, err, cli.ExitCode(err), code)
	}
	return output(out.String() + warnings.String())
}
