package check

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// cluster returns clients of an API server with answers by path. Creations are answered by the answer
// for "POST PATH", and are not stored.
func cluster(t *testing.T, answers map[string]string) *kube.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path
		if r.Method == http.MethodPost {
			key = "POST " + key
			if !strings.Contains(r.URL.Path, "selfsubject") && r.URL.Query().Get("dryRun") != "All" {
				t.Errorf("%s is stored", key)
			}
		}
		text, known := answers[key]
		if !known {
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`
		}
		var status struct{ Code int }
		w.Header().Set("Content-Type", "application/json")
		if err := json.Unmarshal([]byte(text), &status); err == nil && status.Code > 0 {
			w.WriteHeader(status.Code)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	c, err := kube.NewClient(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

const (
	podList   = `{"kind":"PodList","apiVersion":"v1","items":[ITEM]}`
	noWebhook = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"failed calling webhook \"a\": connection refused"}`
	denied    = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"admission webhook \"b\" denied the request: invalid host"}`
	broken    = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcd is gone"}`
	forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden"}`
)

// TestClusterChecks breaks one answer of an API server at a time.
func TestClusterChecks(t *testing.T) {
	const (
		system   = "/api/v1/namespaces/istio-system/"
		webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
		services = "POST /apis/networking.istio.io/v1/namespaces/istio-system/virtualservices"
	)
	pod := func(status string) string {
		return strings.Replace(podList, "ITEM", `{"metadata":{"name":"istiod-a","namespace":"istio-system"},"status":`+status+`}`, 1)
	}
	hook := func(service string) string {
		return `{"kind":"MutatingWebhookConfigurationList","apiVersion":"admissionregistration.k8s.io/v1","items":[{"metadata":{"name":"injector"},
			"webhooks":[{"name":"a","clientConfig":{"service":{"namespace":"istio-system","name":"` + service + `"}}}]}]}`
	}
	deleted := strings.Replace(podList, "ITEM", `{"metadata":{"name":"istiod-a","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}`, 1)
	validating := map[string]string{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": `{"kind":"ValidatingWebhookConfigurationList","apiVersion":"admissionregistration.k8s.io/v1","items":[]}`}
	for _, c := range []struct {
		condition    string
		path, answer string
		pre          bool
		status       Status
		detail       string
	}{
		{"its pods run and are ready", system + "pods", pod(`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`), false, Pass, "1 ready"},
		{"its pods run and are ready", system + "pods", pod(`{"phase":"Pending"}`), false, Fail, "istiod-a is Pending"},
		{"its pods run and are ready", system + "pods", deleted, false, Fail, "all 1 pods are being deleted"},
		{"its pods run and are ready", system + "pods", forbidden, false, Skip, "no permission"},
		{"its pods run and are ready", system + "pods", strings.Replace(podList, "ITEM", "", 1), false, Fail, "has no pod"},
		{"the revision is not installed yet", system + "pods", pod(`{"phase":"Running"}`), true, Warn, "pod istio-system/istiod-a runs"},
		{"the revision is not installed yet", system + "pods", strings.Replace(podList, "ITEM", "", 1), true, Pass, "no control plane runs in istio-system"},
		{"the revision is not installed yet", system + "pods", broken, true, Fail, "etcd is gone"},
		{"no container is near its limits", system + "pods", pod(`{"containerStatuses":[{"name":"discovery","lastState":{"terminated":{"reason":"OOMKilled"}}}]}`), false, Fail, "discovery was killed"},
		{"its Service has ready endpoints", system + "services/istiod", `{"kind":"Service","apiVersion":"v1","metadata":{"name":"istiod"}}`, false, Fail, "not found"},
		{"the kinds are installed in versions that are read", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","items":[{"metadata":{"name":"gateways.networking.istio.io"},"spec":{"versions":[{"name":"v0","served":true}]}}]}`,
			false, Fail, "gateways.networking.istio.io serves v0"},
		{"webhooks have a valid CA bundle", webhooks, hook("istiod"), false, Fail, "injector a has no caBundle"},
		{"webhooks have a valid CA bundle", webhooks, hook("other"), false, Fail, "there is no webhook configuration"},
		{"no webhook of a removed control plane is left", webhooks, hook("istiod-old"), true, Fail, "calls Service istio-system/istiod-old, which does not exist"},
		{"the API server can have a pod injected", "POST " + system + "pods", noWebhook, false, Fail, "failed calling webhook"},
		{"the API server can have a pod injected", "POST " + system + "pods", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"check"}]}}`, false, Fail, "no webhook selects it"},
		{"the API server can have a pod injected", "POST " + system + "pods", `{"kind":"Pod","apiVersion":"v1","spec":{"initContainers":[{"name":"istio-proxy"}]}}`, false, Pass, "revision default"},
		{"the API server can have an object validated", services, denied, false, Pass, "is refused"},
		{"the API server can have an object validated", services, noWebhook, false, Fail, "failed calling webhook"},
		{"the API server can have an object validated", services, forbidden, false, Skip, "no permission"},
		{"the API server can have an object validated", services, `{"kind":"VirtualService","apiVersion":"networking.istio.io/v1"}`, false, Fail, "an invalid VirtualService is accepted"},
		{"the roots are valid", system + "configmaps/istio-ca-root-cert", `{"kind":"ConfigMap","apiVersion":"v1","data":{"root-cert.pem":"x"}}`, false, Fail, "no certificate in PEM"},
		{"the cluster's DNS runs", "/api/v1/namespaces/kube-system/services", `{"kind":"ServiceList","apiVersion":"v1","items":[]}`, false, Warn, "k8s-app=kube-dns"},
		{"the Kubernetes version is supported", "/version", `{"gitVersion":"v1.20.3"}`, true, Fail, "v1.20.3 is older than 1.29"},
		{"the Kubernetes version is supported", "/version", `{"gitVersion":"v1.37.0"}`, true, Pass, "v1.37.0"},
		{"this user can install the charts", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`, true, Fail, "may not create customresourcedefinitions"},
	} {
		answers := map[string]string{"/version": `{"gitVersion":"v1.37.0"}`}
		for path, text := range validating {
			answers[path] = text
		}
		answers[c.path] = c.answer
		target := &Target{Client: cluster(t, answers), Namespace: "istio-system", Pre: c.pre, ControlError: errors.New("no route"), Now: time.Now, Timeout: 20 * time.Second}
		list := target.Run(t.Context())
		i := slices.IndexFunc(list, func(r Result) bool { return r.Check == c.condition })
		if i < 0 {
			t.Fatalf("no line %q", c.condition)
		}
		if r := list[i]; r.Status != c.status || !strings.Contains(r.Detail, c.detail) {
			t.Errorf("%s: %s %q, want %s %q", c.condition, r.Status, r.Detail, c.status, c.detail)
		}
	}
}

// TestSilentAPIServer tests that the checks of the API server end with their context, which has the
// timeout of a check, if it does not answer.
func TestSilentAPIServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	client, err := kube.NewClient(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.HTTP.CloseIdleConnections()
	target := &Target{Client: client, Timeout: 50 * time.Millisecond}
	for name, run := range map[string]func(context.Context, *Target) outcome{"answers": apiServerAnswers, "version": kubernetesSupported} {
		start := time.Now()
		o := target.runOne(t.Context(), check{run: run})
		if took := time.Since(start); o.status != Fail || took > 20*time.Second {
			t.Errorf("%s: %v after %v", name, o, took)
		}
	}
}
