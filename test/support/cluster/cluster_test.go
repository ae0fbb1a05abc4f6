package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = NewShared(Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

func TestRolesAreEnforced(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "roles", nil)
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	for name, who := range map[string]struct {
		subject    rbacv1.Subject
		kubeconfig string
	}{
		"a service account": {ServiceAccount(ns, "reader"), c.KubeconfigOf(t, c.ServiceAccountConfig(t, ns, "reader"))},
		"a user":            {User("jane"), c.KubeconfigOf(t, c.UserConfig("jane"))},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", who.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		pods := func() error {
			_, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
			return err
		}
		if err := pods(); !apierrors.IsForbidden(err) {
			t.Errorf("%s without rights lists pods: %v", name, err)
		}
		c.Grant(t, who.subject, list)
		serving.Eventually(t, 5*time.Second, name+" with rights lists pods", pods)
	}
}

func TestTokensAreForAnAudience(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "tokens", nil)
	token := c.Token(t, ns, "someone", "istio-ca")
	for audience, want := range map[string]bool{"istio-ca": true, "another": false} {
		review, err := c.Client(t).AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := review.Status.Authenticated; got != want {
			t.Errorf("for %s it is good: %v, want %v", audience, got, want)
		}
		if user := "system:serviceaccount:" + ns + ":someone"; want && review.Status.User.Username != user {
			t.Errorf("it is of %s, want %s", review.Status.User.Username, user)
		}
	}
}

func TestKindsAreServed(t *testing.T) {
	c := shared.Start(t)
	groups, err := c.Client(t).Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.APIResources {
			found[r.Kind+"."+g.GroupVersion] = true
		}
	}
	for _, want := range []string{"VirtualService.networking.istio.io/v1", "AuthorizationPolicy.security.istio.io/v1", "Telemetry.telemetry.istio.io/v1"} {
		if !found[want] {
			t.Errorf("%s is not served", want)
		}
	}
	if err := c.Apply(t.Context(), "{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s}, spec: {nonsense: 1}}"); err == nil {
		t.Error("an unknown field is accepted")
	}
}

// The API server can be killed and paused, and is restarted at the same address with its data.
func TestFaults(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "faults", nil)
	client := c.Client(t)
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return err
	}
	c.StopAPIServer()
	if err := ask(5 * time.Second); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error of a killed API server = %v", err)
	}
	// Its port is not reused meanwhile.
	if l, err := net.Listen("tcp", c.apiAddress()); err == nil {
		l.Close()
		t.Error("its port is free")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, 10*time.Second, "the API server after its end", func() error { return ask(5 * time.Second) })
	if err := c.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := ask(200 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error of a paused API server = %v", err)
	}
	if err := c.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, 10*time.Second, "the API server after its pause", func() error { return ask(5 * time.Second) })
}

// The output of a program that cannot start is in the error, and no process or file is left.
func TestClusterThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	c, err := Up(t.Context(), Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
	if c != nil || err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v, %v", c, err)
	}
	for _, comm := range running(t) {
		if strings.Contains(comm, dir) {
			t.Errorf("there is still %s", comm)
		}
	}
}

// running returns the command lines of all processes.
func running(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil {
			all = append(all, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return all
}

func TestControllers(t *testing.T) {
	longtest.Test(t)
	c := Start(t, Options{Tier: Controllers})
	ns := c.Namespace(t, "controlled", nil)
	serving.Eventually(t, 10*time.Second, "the roots of a namespace", func() error {
		_, err := c.Client(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	// Namespaces that are deleted go.
	namespaces := c.Client(t).CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, 20*time.Second, "the end of a namespace", func() error {
		if _, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there (%w)", err)
		}
		return nil
	})
}

// Two clusters with nodes, joined by a cable: their Pods call each other by IPv4 and IPv6.
func TestConnectedClusters(t *testing.T) {
	longtest.Test(t)
	RequireNode(t)
	_, err := os.Stat("/proc/net/if_inet6")
	hasIPv6 := err == nil
	want, all := 1, "0.0.0.0"
	if hasIPv6 {
		want, all = 2, "::"
	}
	var both [2]*Cluster
	for i := range both {
		both[i] = Start(t, Options{Tier: Node, DualStack: hasIPv6, Index: i, Images: image.Map{
			{Match: "web", Entrypoint: []string{"python3", "-m", "http.server", "--bind", all, "--directory", "/var/empty", "8080"}},
		}})
		err := both[i].Apply(t.Context(), `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  serviceAccountName: default
  containers:
  - name: web
    image: web
    securityContext: {runAsUser: 0} # this machine's python may be its user's own, such as pyenv's
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := both[0].Connect(both[1]); err != nil {
		t.Fatal(err)
	}
	var webs [2]*corev1.Pod
	for i, c := range both {
		serving.Eventually(t, 30*time.Second, "a Pod that is ready", func() (err error) {
			webs[i], err = c.Client(t).CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && (len(webs[i].Status.ContainerStatuses) == 0 || !webs[i].Status.ContainerStatuses[0].Ready) {
				err = errors.New("the pod is not ready")
			}
			return err
		})
	}
	for i, web := range webs {
		if len(web.Status.PodIPs) != want {
			t.Fatalf("its addresses are %v, want %d", web.Status.PodIPs, want)
		}
		for _, ip := range web.Status.PodIPs {
			url := "http://" + net.JoinHostPort(ip.IP, "8080") + "/"
			if _, err := both[1-i].Exec(t.Context(), "default", "web", "web", "curl", "-sS", "--max-time", "5", url); err != nil {
				t.Errorf("from cluster %d: %v", 1-i, err)
			}
		}
	}
	// A door leads there from this machine, too.
	door, err := both[0].Expose(both[0].net.apiService().String() + ":443")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", door)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
