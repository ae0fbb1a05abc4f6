package pilotctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// front is an HTTP server before a replica, which replaces some of its pages.
type front struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]string
	date  time.Time
}

// newFront returns a front that passes on everything.
func newFront(t *testing.T, address string) *front {
	f := &front{pages: map[string]string{}}
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		page, replaced := f.pages[r.URL.Path]
		date := f.date
		f.mu.Unlock()
		switch {
		case !date.IsZero():
			w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		case replaced:
		default:
			behind.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	t.Cleanup(f.Close)
	return f
}

// set replaces a page; "" passes it on again.
func (f *front) set(path, page string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages[path] = page; page == "" {
		delete(f.pages, path)
	}
}

// setDate sets the time that the front claims; zero is none.
func (f *front) setDate(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.date = at
}

// address returns HOST:PORT.
func (f *front) address() string { return strings.TrimPrefix(f.URL, "http://") }

// check runs pilotctl check and returns the line of a condition.
func (l *lab) check(condition string, args ...string) check.Result {
	l.Helper()
	r := l.pilotctl(append([]string{"check", "-o", "json"}, args...)...)
	var list []check.Result
	if err := json.Unmarshal([]byte(r.out), &list); err != nil {
		l.Fatalf("%v\n%s%s", err, r.out, r.errors)
	}
	if failed := check.Count(list, check.Fail) > 0; failed != (r.code == 5) {
		l.Errorf("exit code %d with\n%s", r.code, r.out)
	}
	i := slices.IndexFunc(list, func(r check.Result) bool { return r.Check == condition })
	if i < 0 {
		l.Fatalf("there is no line %q in\n%s", condition, r.out)
	}
	return list[i]
}

// breakage is one thing that is broken, and the line that must say so.
type breakage struct {
	condition, detail string
	status            check.Status
	breaks, mends     func()
	args              []string
}

// run checks that the line passes before, and has the status and the detail while it is broken.
func (l *lab) run(list []breakage) {
	l.Helper()
	for _, b := range list {
		if b.mends != nil {
			if r := l.check(b.condition); r.Status != check.Pass && r.Status != check.Skip {
				l.Errorf("%s: before it was broken: %s %s", b.condition, r.Status, r.Detail)
			}
		}
		if b.breaks != nil {
			b.breaks()
		}
		r := l.check(b.condition, b.args...)
		if r.Status != b.status || !strings.Contains(r.Detail, b.detail) || r.Hint == "" {
			l.Errorf("%s: %s %q (hint %q), want %s %q", b.condition, r.Status, r.Detail, r.Hint, b.status, b.detail)
		}
		if b.mends != nil {
			b.mends()
		}
	}
}

// setPodStatus changes the status of a pod of the control plane.
func (l *lab) setPodStatus(namespace, name string, change func(*corev1.PodStatus)) {
	l.Helper()
	pods := l.client.Kubernetes.CoreV1().Pods(namespace)
	p, err := pods.Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	change(&p.Status)
	if _, err := pods.UpdateStatus(l.Context(), p, metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// endpoints creates or deletes the endpoints of a Service.
func (l *lab) endpoints(namespace, service string, present bool) {
	l.Helper()
	if !present {
		err := l.client.Kubernetes.DiscoveryV1().EndpointSlices(namespace).Delete(l.Context(), service, metav1.DeleteOptions{})
		if err != nil {
			l.Fatal(err)
		}
		return
	}
	l.apply(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ` + service + `, namespace: ` + namespace + `, labels: {kubernetes.io/service-name: ` + service + `}}
addressType: IPv4
ports: [{name: tcp, port: 15012}]
endpoints: [{addresses: [10.9.0.1], conditions: {ready: true}}]
`)
}

// serve sets whether the versions of a kind are served.
func (l *lab) serve(crd string, served bool) {
	l.Helper()
	crds := l.client.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	o, err := crds.Get(l.Context(), crd, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	versions, _ := o.Object["spec"].(map[string]any)["versions"].([]any)
	var patch []string
	for i := range versions {
		patch = append(patch, fmt.Sprintf(`{"op": "replace", "path": "/spec/versions/%d/served", "value": %t}`, i, served))
	}
	if _, err := crds.Patch(l.Context(), crd, types.JSONPatchType, []byte("["+strings.Join(patch, ",")+"]"), metav1.PatchOptions{}); err != nil {
		l.Fatal(err)
	}
}

// meshService is the Service of the control plane.
func meshService(namespace string) string {
	return `
apiVersion: v1
kind: Service
metadata: {name: istiod, namespace: ` + namespace + `}
spec: {ports: [{name: tcp, port: 15012}]}
`
}

// secureReplica starts a replica of the revision default that signs certificates and serves xDS over TLS.
func (l *lab) secureReplica(name string) *replica {
	l.Helper()
	r := l.replica(name, "default", func(o *discovery.Options) {
		o.Authority.Enabled, o.SecureGRPCAddr = true, serving.FreeAddress(l)
	})
	l.kubelet.forward(name, 15012, r.Secure)
	return r
}

// awaitRoots waits until a replica has published the roots in every namespace.
func (l *lab) awaitRoots() {
	l.Helper()
	l.eventually("every namespace has the roots", func() error {
		if r := l.check("every namespace has the roots"); r.Status != check.Pass {
			return fmt.Errorf("%s %s", r.Status, r.Detail)
		}
		return nil
	})
}

// TestCheckBrokenMeshes breaks one thing after the other, and has pilotctl check find each.
func TestCheckBrokenMeshes(t *testing.T) {
	l := newLabAlone(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s") + "---" + meshService(l.system))
	l.endpoints(l.system, "istiod", true)
	a, b := l.secureReplica("istiod-a"), l.secureReplica("istiod-b")
	f := newFront(t, b.HTTP)
	l.kubelet.forward("istiod-b", 8080, f.address())
	one := a.connect("one", "10.1.0.1")
	l.awaitRoots()
	nobody := l.cluster.KubeconfigOf(t, l.cluster.UserConfig("nobody"))
	dead := filepath.Join(t.TempDir(), "dead")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
	if err := os.WriteFile(dead, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	page := func(path, content string) (breaks, mends func()) {
		return func() { f.set(path, content) }, func() { f.set(path, "") }
	}
	syncz := func(resources string) string {
		return `[{"proxy":"two.shop","envoy_version":"1.30.1","resources":{"x.Cluster":` + resources + `}}]`
	}
	list := []breakage{
		{condition: "the API server answers", status: check.Fail, detail: "127.0.0.1:1", args: []string{"--kubeconfig", dead}},
		{condition: "this user can read the control plane", status: check.Warn, detail: "may not create pods/portforward", args: []string{"--kubeconfig", nobody}},
		{
			condition: "the kinds are installed in versions that are read", status: check.Fail, detail: "wasmplugins.extensions.istio.io serves",
			breaks: func() { l.serve("wasmplugins.extensions.istio.io", false) }, mends: func() { l.serve("wasmplugins.extensions.istio.io", true) },
		},
		{
			condition: "its pods run and are ready", status: check.Warn, detail: "istiod-b is not ready (discovery: CrashLoopBackOff",
			breaks: func() {
				l.setPodStatus(l.system, "istiod-b", func(s *corev1.PodStatus) {
					s.Conditions[0].Status = corev1.ConditionFalse
					s.ContainerStatuses = []corev1.ContainerStatus{{Name: "discovery", State: corev1.ContainerState{
						Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
					}}}
				})
			},
			mends: func() {
				l.setPodStatus(l.system, "istiod-b", func(s *corev1.PodStatus) {
					s.Conditions[0].Status, s.ContainerStatuses = corev1.ConditionTrue, nil
				})
			},
		},
		{
			condition: "its Service has ready endpoints", status: check.Fail, detail: "has no ready endpoint",
			breaks: func() { l.endpoints(l.system, "istiod", false) }, mends: func() { l.endpoints(l.system, "istiod", true) },
		},
		{
			condition: "every replica answers", status: check.Fail, detail: "istiod-b: ",
			breaks: func() { l.kubelet.forward("istiod-b", 8080, "") }, mends: func() { l.kubelet.forward("istiod-b", 8080, f.address()) },
		},
		{
			condition: "no container is near its limits", status: check.Fail, detail: "istiod-b: container discovery was killed for its memory",
			breaks: func() {
				l.setPodStatus(l.system, "istiod-b", func(s *corev1.PodStatus) {
					s.ContainerStatuses = []corev1.ContainerStatus{{Name: "discovery", LastTerminationState: corev1.ContainerState{
						Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
					}}}
				})
			},
			mends: func() {
				l.setPodStatus(l.system, "istiod-b", func(s *corev1.PodStatus) { s.ContainerStatuses = nil })
			},
		},
		{
			condition: "clocks agree", status: check.Fail, detail: "istiod-b differs by 10m",
			breaks: func() { f.setDate(time.Now().Add(10*time.Minute + 2*time.Second)) }, mends: func() { f.setDate(time.Time{}) },
		},
		{
			condition: "the xDS port has a certificate of the roots", status: check.Fail, detail: "istiod-b: ",
			breaks: func() { l.kubelet.forward("istiod-b", 15012, f.address()) }, mends: func() { l.kubelet.forward("istiod-b", 15012, b.Secure) },
		},
		{
			condition: "no configuration object has errors", status: check.Warn, detail: "DestinationRule/" + l.shop + "/bad",
			breaks: func() {
				l.apply("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: bad, namespace: " + l.shop + "}\nspec: {host: a..b}")
				l.eventually("the problem is found", func() error {
					text, err := a.GetPage("/debug/problemz")
					if err == nil && !strings.Contains(text, "bad") {
						return fmt.Errorf("it has %s", text)
					}
					return err
				})
			},
			mends: func() {
				if err := l.client.Dynamic.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}).
					Namespace(l.shop).Delete(t.Context(), "bad", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for _, p := range []struct {
		condition     string
		status        check.Status
		path, content string
		detail        string
	}{
		{"the replicas have the same version", check.Warn, "/version", "0.1.0-x-Clean", "0.1.0-x-Clean: istiod-b"},
		{"the replicas agree on the configuration", check.Fail, "/debug/configz", "[]", "VirtualService " + l.shop + "/reviews differs between istiod-a and istiod-b"},
		{"the signing certificates are valid", check.Fail, "/metrics", "citadel_server_cert_chain_expiry_timestamp 1e9\n", "istiod-b: the signing certificate has expired at 2001"},
		{"all clusters are in sync", check.Fail, "/debug/clusterz", `[{"id":"west","syncStatus":"timeout","waiting":"no route to host"}]`, "istiod-b: cluster west is timeout no route to host"},
		{"no proxy is behind", check.Warn, "/debug/syncz", syncz(`{"sent":"2","acked":"1","sentTime":"2026-01-01T00:00:00Z"}`), "two.shop has not acknowledged Cluster"},
		{"the Envoy versions are supported", check.Warn, "/debug/syncz", syncz(`{}`), "two.shop: Envoy 1.30.1 is older than 1.36"},
	} {
		b := breakage{condition: p.condition, status: p.status, detail: p.detail}
		b.breaks, b.mends = page(p.path, p.content)
		list = append(list, b)
	}
	l.run(list)

	// A proxy really refuses what it is sent.
	one.Refuse(api.RouteType)
	l.apply(route(l.shop, "7s"))
	l.eventually("the refusal is found", func() error {
		if r := l.check("no proxy refuses its configuration"); r.Status != check.Fail || !strings.Contains(r.Detail, "one."+l.shop) {
			return fmt.Errorf("%s %s", r.Status, r.Detail)
		}
		return nil
	})
	l.pilotctl("check").want(t, 5, "× no proxy refuses its configuration", "hint: pilotctl nacks", "√ every replica answers")
	l.pilotctl("check", "-o", "junit").want(t, 5, `<testcase classname="proxies" name="no proxy refuses its configuration">`, "<failure message=")
	l.pilotctl("check", "--wait", "1s").want(t, 5)
}

// TestCheckOfPods breaks the pod of one proxy.
func TestCheckOfPods(t *testing.T) {
	l := newLab(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s"))
	a := l.replica("istiod-a", "default", nil)
	envoy := newFront(t, "127.0.0.1:1")
	year := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	good := map[string]string{
		"/certs":       `{"certificates":[{"cert_chain":[{"valid_from":"2026-01-01T00:00:00Z","expiration_time":"` + year + `"}]}]}`,
		"/server_info": `{"version":"abc/1.40.0/Clean/RELEASE/BoringSSL"}`, "/ready": "LIVE", "/healthz/ready": "ok",
	}
	for path, text := range good {
		envoy.set(path, text)
	}
	l.kubelet.forward("web", 15000, envoy.address())
	l.kubelet.forward("web", 15021, envoy.address())
	proxied := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "istio-proxy", Image: "proxyv2"})
		p.Spec.InitContainers = []corev1.Container{{Name: "istio-validation", Image: "proxyv2"}}
	}
	l.pod(l.shop, "web", nil, proxied)
	l.pod(l.shop, "plain", nil, nil)
	initEnds := func(code int32) {
		l.setPodStatus(l.shop, "web", func(s *corev1.PodStatus) {
			s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "istio-validation", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"},
			}}}
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "istio-proxy", RestartCount: 5}}
		})
	}
	initEnds(126)
	web := []string{"--proxy", "web." + l.shop}
	set := func(path, text string) func() { return func() { envoy.set(path, text) } }
	l.run([]breakage{
		{condition: "the pod runs", status: check.Fail, detail: "has no pod absent", args: []string{"--proxy", "absent." + l.shop}},
		{condition: "it has a proxy", status: check.Fail, detail: "no container istio-proxy", args: []string{"--proxy", "plain", "-n", l.shop}},
		{condition: "its traffic is captured", status: check.Fail, detail: "istio-validation has ended with exit code 126", args: web},
		{condition: "the proxy's container is healthy", status: check.Warn, detail: "5 restarts; it has no memory request", args: web},
		{condition: "it is connected and has accepted its configuration", status: check.Fail, detail: "is connected to none of the 1 replicas", args: web},
		{condition: "the proxy is ready", status: check.Fail, detail: "502", args: web, breaks: set("/healthz/ready", "")},
		{condition: "its certificate is valid", status: check.Fail, detail: "it has expired at 2026-01-02", args: web,
			breaks: set("/certs", strings.ReplaceAll(good["/certs"], year, "2026-01-02T00:00:00Z"))},
		{condition: "its Envoy version is supported", status: check.Warn, detail: "Envoy 1.20.0 is older", args: web,
			breaks: set("/server_info", `{"version":"abc/1.20.0/Clean"}`)},
		{condition: "its clock agrees", status: check.Fail, detail: "the pod differs by", args: web,
			breaks: func() { envoy.setDate(time.Now().Add(-time.Hour)) }},
	})
	envoy.setDate(time.Time{})
	for path, text := range good {
		envoy.set(path, text)
	}
	initEnds(0)
	p := sidecar.Connect(l, a.GRPC, sidecar.Node("web", l.shop, "10.1.0.1", nil))
	_ = p
	l.eventually("all checks pass", func() error {
		if r := l.pilotctl("check", "--proxy", "web."+l.shop); r.code != 0 {
			return fmt.Errorf("%s", r.out)
		}
		return nil
	})
}

// TestCheckOfClusters breaks webhooks, roots and DNS in a cluster without a control plane, and checks
// whether one can be installed.
func TestCheckOfClusters(t *testing.T) {
	l := newLabAlone(t)
	webhooks := func(name string) string {
		client := "{url: 'https://127.0.0.1:1/inject'}"
		if name == "orphan" {
			client = "{service: {name: istiod, namespace: absent}, caBundle: ''}"
		}
		return `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: ` + name + `-` + l.system + `, labels: {app: sidecar-injector}}
webhooks:
- {name: a.example.com, clientConfig: ` + client + `, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2,
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + l.system + `}},
   rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ` + name + `-` + l.system + `, labels: {app: istiod}}
webhooks:
- {name: b.example.com, clientConfig: ` + client + `, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2,
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + l.system + `}},
   rules: [{operations: [CREATE], apiGroups: [networking.istio.io], apiVersions: ["*"], resources: ["*"]}]}
`
	}
	remove := func(name string) {
		c := l.client.Kubernetes.AdmissionregistrationV1()
		if err := c.MutatingWebhookConfigurations().Delete(t.Context(), name+"-"+l.system, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := c.ValidatingWebhookConfigurations().Delete(t.Context(), name+"-"+l.system, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	nobody := l.cluster.KubeconfigOf(t, l.cluster.UserConfig("nobody"))
	l.run([]breakage{
		{condition: "every replica answers", status: check.Fail, detail: "the control plane does not run"},
		{condition: "webhooks have a valid CA bundle", status: check.Fail, detail: "there is no webhook configuration"},
		{condition: "the API server can have a pod injected", status: check.Fail, detail: "no webhook selects it"},
		{condition: "the API server can have an object validated", status: check.Fail, detail: "an invalid VirtualService is accepted"},
		{condition: "the roots are valid", status: check.Fail, detail: "not found"},
		{condition: "the cluster's DNS runs", status: check.Warn, detail: "has the label k8s-app=kube-dns"},
		{condition: "this user can install the charts", status: check.Fail, detail: "may not create customresourcedefinitions", args: []string{"--pre", "--kubeconfig", nobody}},
	})
	l.apply(webhooks("dead"))
	l.eventually("the webhooks are in effect", func() error {
		if r := l.check("the API server can have a pod injected"); !strings.Contains(r.Detail, "failed calling webhook") {
			return fmt.Errorf("%s %s", r.Status, r.Detail)
		}
		return nil
	})
	l.run([]breakage{
		{condition: "webhooks have a valid CA bundle", status: check.Fail, detail: "a.example.com has no caBundle"},
		{condition: "the API server can have an object validated", status: check.Fail, detail: "failed calling webhook"},
	})
	remove("dead")
	l.apply(webhooks("orphan"))
	l.run([]breakage{{condition: "no webhook of a removed control plane is left", status: check.Fail,
		detail: "calls Service absent/istiod, which does not exist", args: []string{"--pre"}}})
	remove("orphan")

	l.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-ca-root-cert, namespace: " + l.system + "}\ndata: {root-cert.pem: nonsense}")
	l.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-ca-root-cert, namespace: " + l.shop + "}\ndata: {root-cert.pem: other}")
	l.apply("apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}\nspec: {ports: [{name: dns, port: 53}]}")
	l.pod("kube-system", "dns", map[string]string{"k8s-app": "kube-dns"}, nil)
	l.run([]breakage{
		{condition: "the roots are valid", status: check.Fail, detail: "no certificate in PEM"},
		{condition: "every namespace has the roots", status: check.Fail, detail: "the roots in " + l.shop + " differ"},
		{condition: "the cluster's DNS runs", status: check.Fail, detail: "kube-dns has no ready endpoint"},
		{condition: "the control plane's name resolves", status: check.Fail, detail: "pod dns: "},
	})
}
