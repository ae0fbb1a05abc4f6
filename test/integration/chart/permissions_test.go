package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const account = "system:serviceaccount:istio-system:istiod"

// TestPermissions runs the control plane with the service account and permissions of the chart, and
// lets it do everything that it does with an API server. None of its requests is denied, and each
// permission is needed by at least one of them.
func TestPermissions(t *testing.T) {
	scorecard.Check(t, 42)
	longtest.Test(t)
	flags, log := auditing(t)
	c := cluster.Start(t, cluster.Options{
		GatewayAPI: cluster.Experimental, IstioKinds: true, InferenceKinds: true, CRDs: []string{clusterSetKinds(t)}, APIServerArgs: flags,
	})
	h := newHelm(t, c.Kubeconfig())
	values := []string{"autoscaleEnabled=false", "gatewaySecrets.namespaces={shop}", "env.PILOT_WORKLOAD_ENTRY_GRACE_PERIOD=100ms", "env.ENABLE_MCS_AUTO_EXPORT=true",
		"env.ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true"}
	createNamespace(t, c, "shop")
	h.run(t, "install", "istio-base", chart("base"), "-n", "istio-system", "--create-namespace", "--set", "base.enableCRDTemplates=false")
	h.run(t, append([]string{"install", "istiod", chart("istiod"), "-n", "istio-system", "--create-namespace"}, arguments(values)...)...)
	h.run(t, "install", "istio-ingressgateway", chart("gateway"), "-n", "istio-ingress", "--create-namespace")

	deployment := deploymentOf(t, h.run(t, append([]string{"template", "istiod", chart("istiod"), "-n", "istio-system"}, arguments(values)...)...))
	awaitPermissions(t, c)
	ports := startControlPlane(t, c, deployment, "istiod-0")
	startControlPlane(t, c, deployment, "istiod-1")
	story(t, c, ports)

	client := c.Client(t)
	var grants []grant
	grants = append(grants, grantsOf("", clusterRules(t, client, "istiod-clusterrole-istio-system"))...)
	for _, role := range [][2]string{{"istio-system", "istiod"}, {"shop", "istiod-secrets"}, {"istio-ingress", "istio-ingressgateway-istiod"}} {
		r, err := client.RbacV1().Roles(role[0]).Get(t.Context(), role[1], metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, grantsOf(role[0], r.Rules)...)
	}
	requests := requestsOf(t, log, account)
	if len(requests) < 50 {
		t.Fatalf("only %d requests of %s are in the log", len(requests), account)
	}
	said := map[string]bool{}
	for _, r := range requests {
		if !r.allowed() && !said[r.String()] {
			said[r.String()] = true
			t.Errorf("refused: %s", r)
		}
	}
	for _, g := range unused(grants, requests) {
		if !seldomUsed(g) {
			t.Errorf("not needed: %s", g)
		}
	}
}

// seldomUsed reports whether a permission is not used in this scenario: older API servers (without
// WatchList) need a list before a watch; the mesh's root is not renewed; the replica that is not
// the leader has no proxies to report; and no Event is renewed.
func seldomUsed(g grant) bool {
	if g.resource == "events" && g.verb == "patch" {
		return true
	}
	report := g.namespace == "istio-system" && (g.resource == "pods" || g.resource == "configmaps" && g.verb != "get" && g.verb != "watch")
	// A server-side apply that creates an object needs both permissions, and is logged as a patch.
	applied := slices.Contains([]string{"services", "serviceaccounts", "deployments", "horizontalpodautoscalers", "poddisruptionbudgets"}, g.resource)
	return g.verb == "list" || g.verb == "create" && applied || g.resource == "secrets" && g.verb == "update" || report
}

// awaitPermissions waits until the API server applies the roles, which are created one after the
// other.
func awaitPermissions(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "watch", Resource: "namespaces"}, {Namespace: "istio-system", Verb: "update", Resource: "leases", Group: "coordination.k8s.io"},
		{Namespace: "shop", Verb: "watch", Resource: "secrets"}, {Namespace: "istio-ingress", Verb: "watch", Resource: "secrets"},
	} {
		eventually(t, fmt.Sprintf("%s may %s %s", account, a.Verb, a.Resource), func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account, ResourceAttributes: &a}}
			got, err := c.Client(t).AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil && !got.Status.Allowed {
				err = errors.New(got.Status.Reason)
			}
			return err
		})
	}
}

func clusterRules(t *testing.T, client *kubernetes.Clientset, name string) []rbacv1.PolicyRule {
	t.Helper()
	r, err := client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Rules
}

// clusterSetKinds returns the directory with the kinds of multi-cluster services.
func clusterSetKinds(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/mcs-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "crd")
}

func deploymentOf(t *testing.T, manifest string) *appsv1.Deployment {
	t.Helper()
	for _, o := range objects(t, manifest) {
		if o.GetKind() == "Deployment" {
			d := new(appsv1.Deployment)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("the chart has no Deployment")
	return nil
}

// ports are where the control plane is reached.
type ports struct {
	http, secure string
	// log is the file of its log; stop ends it, and returns an error if it had ended before.
	log  string
	stop func() error
}

// startControlPlane runs the Deployment's container as a process of this machine.
func startControlPlane(t *testing.T, c *cluster.Cluster, d *appsv1.Deployment, name string) ports {
	t.Helper()
	program, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "istio-system"}, Spec: d.Spec.Template.Spec}
	pod.Spec.ServiceAccountName = "istiod"
	if _, err := c.Client(t).CoreV1().Pods("istio-system").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := ports{http: serving.FreeAddress(t), secure: serving.FreeAddress(t)}
	container := d.Spec.Template.Spec.Containers[0]
	args := append(container.Args[:len(container.Args):len(container.Args)], "--httpAddr", p.http, "--secureGRPCAddr", p.secure,
		"--monitoringAddr", serving.FreeAddress(t), "--grpcAddr", "", "--httpsAddr", serving.FreeAddress(t), "--ctrlz_port", "0")
	//nolint:gosec // a program of this checkout
	cmd := exec.Command(program, args...)
	for _, e := range container.Env {
		value := e.Value
		switch {
		case e.Name == "KUBECONFIG":
			value = c.KubeconfigOf(t, c.ServiceAccountConfig(t, "istio-system", "istiod"))
		case e.Name == "POD_NAME":
			value = name
		case e.Name == "POD_NAMESPACE":
			value = "istio-system"
		case e.Name == "SERVICE_ACCOUNT":
			value = "istiod"
		case e.ValueFrom != nil:
			continue
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "istiod.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.log = out.Name()
	p.stop = sync.OnceValue(func() error {
		gone := cmd.Process.Signal(syscall.Signal(0))
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		return gone
	})
	t.Cleanup(func() {
		_ = p.stop() // callers that check whether it has ended do so before
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("the control plane's log:\n%s", lastLines(string(text), 60))
		}
	})
	return p
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// eventually waits until a condition holds, and fails the test after a minute.
func eventually(t *testing.T, what string, is func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := is(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("%s: not after a minute: %w", what, err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
