package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestWebhookLatency sends concurrent reviews of pods and rules to the webhooks of a control plane
// with a real API server, while rules change there. The patch of each pod and the verdict on each
// rule must be those of the first review.
func TestWebhookLatency(t *testing.T) {
	reviews := scorecard.BySize(1000, 50_000, 1_000_000)
	const workers = 4
	check := scorecard.Check(t, 41, scorecard.Size("reviews", reviews), scorecard.Size("at a time", workers))
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{IstioKinds: true})
	url := startWebhooks(t, c)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxIdleConnsPerHost: workers,
		// The certificate is not the point.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	questions, want := firstAnswers(t, client, url)

	ctx, cancel := context.WithCancel(t.Context())
	var changing, asking sync.WaitGroup
	var changes, next, wrong atomic.Int64
	changing.Go(func() { churnRules(ctx, t, c, &changes) })
	latencies := make([]report.Histogram, workers)
	began := time.Now()
	for worker := range workers {
		asking.Go(func() {
			for n := next.Add(1); n <= int64(reviews); n = next.Add(1) {
				i := int(n) % len(questions)
				start := time.Now()
				got, err := questions[i].ask(ctx, client, url)
				latencies[worker].Add(float64(time.Since(start)) / float64(time.Millisecond))
				if err != nil || got != want[i] {
					if wrong.Add(1) == 1 {
						t.Errorf("%s: error %v\nanswer %s\nat first %s", questions[i].path, err, got, want[i])
					}
				}
			}
		})
	}
	asking.Wait()
	cancel()
	changing.Wait()
	all := report.Histogram{}
	for i := range latencies {
		all.Merge(&latencies[i])
	}
	p99 := milliseconds(all.Latency().P99)
	check.Measured("reviews per second", int(float64(reviews)/time.Since(began).Seconds()))
	check.Measured("rules changed meanwhile", changes.Load())
	check.Measured("median", milliseconds(all.Latency().Median))
	check.Measured("p99", p99)
	check.Measured("longest", milliseconds(all.Latency().Max))
	check.Measured("answers that differ", wrong.Load())
	// In `make test` packages run side by side.
	if limit := scorecard.BySize(time.Second, 100*time.Millisecond, 100*time.Millisecond); p99 > limit {
		t.Errorf("p99 is %v, want at most %v", p99, limit)
	}
	if changes.Load() == 0 {
		t.Error("no rule changed meanwhile: the run proves nothing")
	}
}

// firstAnswers returns the questions, with the answers that must not change.
func firstAnswers(t *testing.T, client *http.Client, url string) (questions []question, answers []string) {
	t.Helper()
	questions = webhookQuestions()
	answers = make([]string, len(questions))
	for i, q := range questions {
		serving.Eventually(t, patience, "a first answer", func() (err error) {
			answers[i], err = q.ask(t.Context(), client, url)
			return err
		})
	}
	return questions, answers
}

// startWebhooks starts a control plane with webhooks on an API server and returns their address.
func startWebhooks(t *testing.T, c *cluster.Cluster) (url string) {
	t.Helper()
	namespace := c.Namespace(t, "istio-system", nil)
	if _, err := c.Client(t).CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector"},
		Data:       cluster.InjectorConfig(t),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o := controlplane.Options(t)
	none := filepath.Join(t.TempDir(), "none")
	o.MeshConfigFile, o.NetworksConfigFile = none, none
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	o.Namespace, o.PodName, o.HTTPSAddr = namespace, "istiod-1", serving.FreeAddress(t)
	o.Webhooks.NativeSidecars = "true"
	controlplane.Start(t, o)
	return "https://" + o.HTTPSAddr
}

// churnRules changes VirtualServices on the API server until ctx ends.
func churnRules(ctx context.Context, t *testing.T, c *cluster.Cluster, changes *atomic.Int64) {
	const every, rules = 100 * time.Millisecond, 20
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.Apply(ctx, fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: rule-%d, namespace: default},
  spec: {hosts: [host-%[1]d.example.com], http: [{timeout: %ds, route: [{destination: {host: host-%[1]d.example.com}}]}]}}`, n%rules, 1+n))
		switch {
		case err == nil:
			changes.Add(1)
		case ctx.Err() == nil:
			t.Errorf("change a rule: %v", err)
			return
		}
	}
}

// question is an AdmissionReview for one of the webhooks.
type question struct{ path, object, kind string }

// ask returns the part of the answer that must not change: the patch and the verdict.
func (q question) ask(ctx context.Context, client *http.Client, url string) (string, error) {
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"default",`+
		`"kind":%s,"object":%s}}`, q.kind, q.object)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+q.path, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s %.200s", q.path, response.Status, text)
	}
	if q.path == "/inject" && len(review.Response.Patch) == 0 {
		return "", fmt.Errorf("no patch: %.300s", text)
	}
	return fmt.Sprint(review.Response.Allowed, sortedPatch(review.Response.Patch)), nil
}

// sortedPatch returns the operations of a JSON patch, sorted: their order may differ from answer to
// answer.
func sortedPatch(patch []byte) []string {
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return []string{string(patch)}
	}
	list := make([]string, len(operations))
	for i, o := range operations {
		list[i] = string(o)
	}
	slices.Sort(list)
	return list
}

// webhookQuestions are reviews of different pods, and of rules, one of which is invalid.
func webhookQuestions() []question {
	pod, rule := `{"group":"","version":"v1","kind":"Pod"}`, `{"group":"networking.istio.io","version":"v1","kind":"VirtualService"}`
	list := []question{
		{"/validate",
			`{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"name":"good","namespace":"default"},` +
				`"spec":{"hosts":["a"],"http":[{"route":[{"destination":{"host":"a"}}]}]}}`, rule},
		{"/validate",
			`{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"name":"bad","namespace":"default"},` +
				`"spec":{"hosts":["a"],"http":[{"route":[{"destination":{"host":"a"}}],"retries":{"retryOn":"nonsense "}}]}}`, rule},
	}
	for _, containers := range []string{
		`{"name":"web","image":"web:1"}`,
		`{"name":"web","image":"web:1","ports":[{"containerPort":8080}],"readinessProbe":{"httpGet":{"path":"/ready","port":8080}}}`,
		`{"name":"web","image":"web:1"},{"name":"log","image":"log:1","volumeMounts":[{"name":"v","mountPath":"/v"}]}`,
	} {
		list = append(list,
			question{"/inject", `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","namespace":"default",` +
				`"labels":{"app":"web"},"annotations":{"sidecar.istio.io/proxyCPU":"100m"}},` +
				`"spec":{"serviceAccountName":"default","containers":[` + containers + `]}}`, pod})
	}
	return list
}
