package pilotctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// service and route return objects of the namespace.
func service(namespace string) string {
	return `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: ` + namespace + `}
spec: {hosts: [reviews.` + namespace + `], addresses: [240.1.1.1], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 9080, name: http, protocol: HTTP}], endpoints: [{address: 10.1.1.1}]}
`
}

func route(namespace, timeout string) string {
	return `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: ` + namespace + `}
spec: {hosts: [reviews.` + namespace + `], http: [{timeout: ` + timeout + `, route: [{destination: {host: reviews.` + namespace + `}}]}]}
`
}

// connect connects a sidecar that has requested the routes.
func (r *replica) connect(name, ip string) *sidecar.Proxy {
	r.l.Helper()
	p := sidecar.Connect(r.l, r.GRPC, sidecar.Node(name, r.l.shop, ip, nil))
	r.l.eventually(name+" has its routes", func() error {
		if p.VersionOf(api.RouteType, "9080") == "" {
			return fmt.Errorf("it has %v", p.ResourceNames(api.RouteType))
		}
		return nil
	})
	return p
}

// want fails the test unless the command has ended with a code and printed all texts.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.errors, text) {
			t.Errorf("no %q in the output", text)
		}
	}
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if t.Failed() {
		t.Fatalf("the output is:\n%s%s", r.out, r.errors)
	}
}

// TestAllReplicasByPortForward reaches two replicas through the API server. Neither of them knows the
// other, or accepts requests of it: pilotctl asks each, and its answers are about the proxies of both.
func TestAllReplicasByPortForward(t *testing.T) {
	l := newLab(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s"))
	a, b := l.replica("istiod-a", "default", nil), l.replica("istiod-b", "canary", nil)
	one, two := a.connect("one", "10.1.0.1"), b.connect("two", "10.1.0.2")

	l.pilotctl("ps", "-o", "wide").want(t, 0, "one."+l.shop, "two."+l.shop, "istiod-a", "istiod-b")
	r := l.pilotctl("ps", "-o", "name", "--revision", "canary")
	r.want(t, 0)
	if r.out != "two."+l.shop+"\n" {
		t.Errorf("the proxies of revision canary are %q", r.out)
	}
	l.pilotctl("pc", "routes", "two."+l.shop).want(t, 0, "reviews")
	l.pilotctl("explain", "two."+l.shop, "http://reviews."+l.shop+":9080/").want(t, 0, "outbound|9080||reviews."+l.shop)
	l.pilotctl("pc", "routes", "three."+l.shop).want(t, 1, "no proxy", "three."+l.shop, "is connected")

	file := filepath.Join(t.TempDir(), "route.yaml")
	write := func(timeout string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(route(l.shop, timeout)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("2s")
	l.pilotctl("diff", "-f", file).want(t, 1, "2 of 2 proxies change", "one."+l.shop+", two."+l.shop)
	l.pilotctl("diff", "-f", file, "--proxy", "two").want(t, 1, "1 of 1 proxies change", "two."+l.shop)
	l.pilotctl("diff", "-f", file, "--proxy", "three").want(t, 2, `no proxy "three" is connected`)

	// A proxy of the second replica is behind. The version is the API server's.
	two.SetSilent(true)
	l.apply(route(l.shop, "2s"))
	l.pilotctl("wait", "-f", file, "--timeout", "3s").want(t, 3, "(istiod-b): 0 of 1 proxies up to date", "two."+l.shop)
	two.SetSilent(false)
	l.pilotctl("wait", "-f", file).want(t, 0, "(istiod-a): 1 proxy is up to date", "(istiod-b): 1 proxy is up to date")
	l.pilotctl("wait", "vs/reviews", "-n", l.shop, "--proxy", "two").want(t, 0, "(istiod-b): 1 proxy is up to date")
	l.pilotctl("wait", "vs/reviews", "-n", l.shop, "--proxy", "three").want(t, 1, `no proxy "three" is connected`)
	_ = one

	// The API server refuses users who may not forward ports.
	nobody := l.cluster.KubeconfigOf(t, l.cluster.UserConfig("nobody"))
	l.pilotctl("ps", "--kubeconfig", nobody).want(t, 1, `User "nobody" cannot list resource "pods"`)
	l.pilotctl("ps", "--istioNamespace", "absent").want(t, 1, "no running pod with the labels app=istiod in namespace absent")

	// A replica that does not answer is named; the answers of the others are shown.
	l.kubelet.forward("istiod-b", 8080, "")
	l.pilotctl("ps").want(t, 0, "one."+l.shop, "warning: the output is incomplete: ask the control plane (istiod-b)")
}

// TestReplicaIsReplaced deletes a replica during a wait, and adds another one with its proxy.
func TestReplicaIsReplaced(t *testing.T) {
	l := newLab(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s"))
	a, b := l.replica("istiod-a", "default", nil), l.replica("istiod-b", "default", nil)
	a.connect("one", "10.1.0.1")
	two := b.connect("two", "10.1.0.2")
	two.SetSilent(true)
	l.apply(route(l.shop, "2s"))
	done := make(chan result, 1)
	go func() { done <- l.pilotctl("wait", "vs/reviews", "-n", l.shop, "--timeout", patience.String()) }()
	l.eventually("the wait has begun", func() error {
		text, err := b.GetPage("/debug/syncz")
		if err == nil && !strings.Contains(text, "two."+l.shop) {
			return fmt.Errorf("the proxies are %s", text)
		}
		return err
	})
	c := l.replica("istiod-c", "default", nil)
	c.connect("two", "10.1.0.2")
	two.AllowEnd()
	if err := l.client.Kubernetes.CoreV1().Pods(l.system).Delete(t.Context(), "istiod-b", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	b.Stop()
	(<-done).want(t, 0, "(istiod-a): 1 proxy is up to date", "(istiod-c): 1 proxy is up to date")
}

// TestAccessOverXDS reads pages and the read API over the xDS port with a token of the API server, which
// is requested or in a file. Streams of events need HTTP.
func TestAccessOverXDS(t *testing.T) {
	l := newLab(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s"))
	l.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + l.system + "}\n---\n" +
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, namespace: " + l.shop + "}")
	a := l.replica("istiod-a", "default", func(o *discovery.Options) {
		o.Authority.Enabled = true
		o.SecureGRPCAddr = serving.FreeAddress(t)
	})
	a.connect("one", "10.1.0.1")
	l.eventually("the roots are published", func() error {
		_, err := l.client.Kubernetes.CoreV1().ConfigMaps(l.system).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		return err
	})
	l.pilotctl("ps", "--xds-address", a.Secure).want(t, 0, "one."+l.shop, "SYNCED")
	l.pilotctl("pc", "routes", "one."+l.shop, "--xds-address", a.Secure).want(t, 0, "reviews")
	l.pilotctl("pc", "routes", "two."+l.shop, "--xds-address", a.Secure).want(t, 1, "no proxy", "two."+l.shop, "is connected")
	l.pilotctl("wait", "vs/reviews", "-n", l.shop, "--xds-address", a.Secure).want(t, 1, "xDS does not serve: use --server or a kubeconfig")
	for _, command := range []string{"changes", "registries", "certificates", "mtls", "topology"} {
		l.pilotctl(command, "--xds-address", a.Secure).want(t, 0)
	}
	l.eventually("the route is in use", func() error {
		r := l.pilotctl("why", "vs/reviews", "-n", l.shop, "--xds-address", a.Secure)
		if r.code != 0 || !strings.Contains(r.out, "1 of 1 are served resources") {
			return fmt.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		return nil
	})
	l.pilotctl("describe", "service", "reviews."+l.shop, "--xds-address", a.Secure).want(t, 0, "reviews."+l.shop)
	l.pilotctl("describe", "service", "absent", "--xds-address", a.Secure).want(t, 1, `no service "absent`)

	// A workload may read about its namespace only.
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(l.cluster.Token(t, l.shop, "web", "istio-ca")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.pilotctl("pc", "routes", "one."+l.shop, "--xds-address", a.Secure, "--token-file", token).want(t, 0, "reviews")
	l.apply(strings.ReplaceAll(service(l.system), "reviews", "private") + "---" +
		strings.ReplaceAll(route(l.shop, "1s"), "{destination: {host: reviews."+l.shop+"}}", "{destination: {host: nowhere}}"))
	workload := func(words ...string) result {
		t.Helper()
		return l.pilotctl(append(words, "--xds-address", a.Secure, "--token-file", token)...)
	}
	l.eventually("the problem is found", func() error {
		if r := workload("problems"); r.code != 0 || !strings.Contains(r.out, "nowhere") {
			return fmt.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		return nil
	})
	workload("ps").want(t, 0, "one."+l.shop)
	workload("nacks").want(t, 0, "no resource was rejected")
	r := workload("services")
	r.want(t, 0, "reviews."+l.shop)
	if strings.Contains(r.out, "private."+l.system) {
		t.Errorf("a workload sees services of another namespace: %s", r.out)
	}
	workload("endpoints").want(t, 0, "reviews."+l.shop)
	workload("describe", "pod", "one."+l.shop).want(t, 1, "403", "may read all namespaces")
	workload("remote-clusters").want(t, 1, "403", "may read all namespaces")
	if err := os.WriteFile(token, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.pilotctl("ps", "--xds-address", a.Secure, "--token-file", token).want(t, 1, "401")
}
