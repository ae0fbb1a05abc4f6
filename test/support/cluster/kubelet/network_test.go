package kubelet_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// A server of HTTP in a Pod's shell needs a program: this machine's python, which the fetching of Envoy needs as well.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: busybox
        securityContext: {runAsUser: 0} # this machine's python may be its user's own, such as pyenv's
        args: [-c, "mkdir /tmp/www; hostname > /tmp/www/index.html; exec python3 -m http.server --directory /tmp/www 8080"]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  containers: [{name: main, image: pause}]
`

// A Deployment behind a Service is reached by its name from a Pod, and by its load balancer's address from outside.
func TestServices(t *testing.T) {
	l := newLab(t)
	l.apply(web)
	l.pod("client", "ready", ready)
	seen := map[string]bool{}
	l.await("both pods to answer", func() error {
		// An error is one of a Service whose endpoints are not there yet.
		out, err := l.Exec(t.Context(), l.namespace, "client", "", "curl", "-sS", "--max-time", "2", "http://web/")
		if err == nil {
			seen[strings.TrimSpace(out)] = true
		}
		if len(seen) < 2 {
			return fmt.Errorf("there answered %v (%w)", seen, err)
		}
		return nil
	})
	var ip string
	l.await("the load balancer's address", func() error {
		service, err := l.Client(t).CoreV1().Services(l.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(service.Status.LoadBalancer.Ingress) == 0 {
			return errNot
		}
		ip = service.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	transport := l.Transport()
	defer transport.CloseIdleConnections()
	l.await("the load balancer to answer", func() error { return get(t, transport, "http://"+ip+"/") })
	door, err := l.Expose(ip + ":80")
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t, http.DefaultTransport, "http://"+door+"/"); err != nil {
		t.Errorf("through the door: %v", err)
	}
	l.forwards()
}

func get(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	client := http.Client{Transport: transport, Timeout: 2 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.HasPrefix(body, []byte("web-")) {
		return fmt.Errorf("%s: %s (%w)", resp.Status, body, err)
	}
	return nil
}

// forwards sends a request to a Pod by port-forward.
func (l *lab) forwards() {
	l.t.Helper()
	client := l.Client(l.t)
	pods, err := client.CoreV1().Pods(l.namespace).List(l.t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		l.t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(l.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(l.namespace).Name(pods.Items[0].Name).SubResource("portforward").URL()
	stop, up := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), []string{"0:8080"}, stop, up, io.Discard, io.Discard)
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	defer func() {
		close(stop)
		<-done
	}()
	select {
	case <-up:
	case err := <-done:
		l.t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := get(l.t, http.DefaultTransport, fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local)); err != nil {
		l.t.Errorf("by port-forward: %v", err)
	}
}

// Exec passes on the exit code; logs can be followed to their end, or cut to their tail.
func TestExecAndLogs(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  restartPolicy: Never
  containers: [{name: main, image: busybox, args: [-c, "echo one; echo two; until test -e /tmp/go; do sleep 0.05; done; echo three"]}]
`)
	l.pod("talker", "running", running)
	if _, err := l.Exec(t.Context(), l.namespace, "talker", "main", "sh", "-c", "kill -9 $$"); err == nil ||
		!strings.Contains(err.Error(), "exit code 137") {
		t.Errorf("error of a killed command = %v", err)
	}
	if _, err := l.Exec(t.Context(), l.namespace, "talker", "main", "sh", "-c", "echo oops >&2; exit 9"); err == nil ||
		!strings.Contains(err.Error(), "exit code 9") || !strings.Contains(err.Error(), "oops") {
		t.Errorf("error of a failing command = %v", err)
	}
	stream, err := l.Client(t).CoreV1().Pods(l.namespace).GetLogs("talker", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	var all []string
	for lines.Scan() {
		if all = append(all, lines.Text()); len(all) == 2 {
			// The container may end, and the command with it, before the command has returned.
			_, err := l.Exec(t.Context(), l.namespace, "talker", "main", "sh", "-c", "touch /tmp/go")
			if err != nil && !strings.Contains(err.Error(), "exit code 137") {
				t.Error(err)
			}
		}
	}
	if got := strings.Join(all, " "); got != "one two three" {
		t.Errorf("the followed log has %q", got)
	}
	if got := l.logs("talker", corev1.PodLogOptions{TailLines: new(int64(2))}); got != "two\nthree\n" {
		t.Errorf("the last two lines are %q", got)
	}
}
