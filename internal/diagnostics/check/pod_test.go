package check

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestPodChecks breaks one thing of a pod with a sidecar at a time.
func TestPodChecks(t *testing.T) {
	const (
		path    = "/api/v1/namespaces/shop/pods/web"
		healthy = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"shop"},
			"spec":{"nodeName":"n","containers":[{"name":"istio-proxy","image":"proxyv2","resources":{"requests":{"memory":"64Mi"}}}],"initContainers":[{"name":"istio-validation"}]},
			"status":{"phase":"Running","initContainerStatuses":[{"name":"istio-validation","state":{"terminated":{"exitCode":0}}}],
			"containerStatuses":[{"name":"istio-proxy","restartCount":0}]}}`
	)
	now := time.Now()
	end := now.Add(24 * time.Hour).UTC().Format(time.RFC3339)
	good := map[string]string{
		"/certs":       `{"certificates":[{"cert_chain":[{"valid_from":"2026-01-01T00:00:00Z","expiration_time":"` + end + `"}]}]}`,
		"/server_info": `{"version":"abc/1.40.0/Clean/RELEASE/BoringSSL"}`, "/ready": "LIVE", "/healthz/ready": "ok",
	}
	syncz := `[{"proxy":"web.shop","resources":{}}]`
	run := func(pod string, pages map[string]string, at time.Time) []Result {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, replaced := pages[r.URL.Path]
			if !replaced {
				text = good[r.URL.Path]
			}
			if text == "" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write([]byte(text))
		}))
		defer s.Close()
		target := &Target{
			Client: cluster(t, map[string]string{"/version": `{"gitVersion":"v1.37.0"}`, path: pod}), Namespace: "istio-system", Proxy: "web", ProxyNamespace: "shop",
			Control: replicas(t, "/debug/syncz", syncz), Timeout: 20 * time.Second, Now: func() time.Time { return at },
			DialPod: func(ctx context.Context, _ *corev1.Pod, _ int) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
			},
		}
		return target.Run(t.Context())
	}
	for _, r := range run(healthy, nil, now) {
		if r.Status != Pass {
			t.Errorf("a healthy pod: %s: %s %q", r.Check, r.Status, r.Detail)
		}
	}
	one := syncz
	syncz = `[{"proxy":"web.shop","resources":{}},{"proxy":"web.shop","resources":{"x.Cluster":{"lastError":"bad"}}}]`
	if list := run(healthy, nil, now); !slices.ContainsFunc(list, func(r Result) bool {
		return r.Status == Fail && r.Detail == "web.shop refuses Cluster: bad"
	}) {
		t.Errorf("a second connection refuses a cluster: %+v", list)
	}
	syncz = one
	for _, c := range []struct {
		condition, old, replacement string // in the pod
		page, text                  string // of Envoy
		late                        time.Duration
		status                      Status
		detail                      string
	}{
		{condition: "the pod runs", old: `"phase":"Running"`, replacement: `"phase":"Pending"`, status: Fail, detail: "shop/web is Pending"},
		{condition: "it has a proxy", old: `"istio-proxy","image"`, replacement: `"app","image"`, status: Fail, detail: "no container istio-proxy"},
		{condition: "its traffic is captured", old: `"exitCode":0`, replacement: `"exitCode":126`, status: Fail, detail: "istio-validation has ended with exit code 126"},
		{condition: "its traffic is captured", old: `"initContainerStatuses":[{"name":"istio-validation"`, replacement: `"initContainerStatuses":[{"name":"other"`, status: Fail, detail: "no rules redirect"},
		{condition: "its traffic is captured", old: `"nodeName":"n"`, replacement: `"hostNetwork":true`, status: Warn, detail: "network of its node"},
		{condition: "the proxy's container is healthy", old: `"restartCount":0`, replacement: `"restartCount":7`, status: Warn, detail: "7 restarts"},
		{condition: "the proxy's container is healthy", old: `"restartCount":0`, replacement: `"lastState":{"terminated":{"reason":"OOMKilled"}}`, status: Fail, detail: "was killed for its memory"},
		{condition: "the proxy is ready", page: "/healthz/ready", status: Fail, detail: "503"},
		{condition: "its certificate is valid", page: "/certs", text: strings.ReplaceAll(good["/certs"], end, "2026-01-02T00:00:00Z"), status: Fail, detail: "it has expired at 2026-01-02"},
		{condition: "its certificate is valid", page: "/certs", text: "{}", status: Fail, detail: "Envoy has no certificate"},
		{condition: "its Envoy version is supported", page: "/server_info", text: `{"version":"abc/1.20.0/Clean"}`, status: Warn, detail: "Envoy 1.20.0 is older"},
		{condition: "its clock agrees", late: time.Hour, status: Fail, detail: "the pod differs by -"},
		{condition: "it is connected and has accepted its configuration", old: `"name":"web"`, replacement: `"name":"web2"`, status: Fail, detail: "web2.shop is connected to none of the 2 replicas"},
	} {
		pages := map[string]string{}
		if c.page != "" {
			pages[c.page] = c.text
		}
		list := run(strings.Replace(healthy, c.old, c.replacement, 1), pages, now.Add(c.late))
		i := slices.IndexFunc(list, func(r Result) bool { return r.Check == c.condition })
		if r := list[i]; r.Status != c.status || !strings.Contains(r.Detail, c.detail) || r.Hint == "" {
			t.Errorf("%s: %s %q, want %s %q", c.condition, r.Status, r.Detail, c.status, c.detail)
		}
	}
}
