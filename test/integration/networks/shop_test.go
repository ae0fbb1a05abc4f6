package networks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// shop is the namespace of the services, with the labels for injection.
const shop = "shop"

// web returns a Deployment of a version of the service "web", whose answers name the pod.
func (s site) web(version string, replicas int, annotations string) {
	s.t.Helper()
	s.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%[1]s, namespace: shop}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: web, version: %[1]s}}
  template:
    metadata:
      labels: {app: web, version: %[1]s}
      annotations: {%[4]s}
    spec:
      serviceAccountName: web
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: istio/examples-bookinfo-reviews-v1:1
        env: [{name: CLUSTER_NAME, value: %[3]s}]
        ports: [{containerPort: 9080}]
        readinessProbe: {tcpSocket: {port: 9080}, periodSeconds: 1}
`, version, replicas, s.id, annotations))
}

// service makes the Service and the accounts, which every cluster has.
func (s site) service() {
	s.t.Helper()
	s.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: client, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{name: http, port: 9080}]
`)
}

// client makes a pod that calls.
func (s site) client() client {
	s.t.Helper()
	s.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: shop}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      serviceAccountName: client
      terminationGracePeriodSeconds: 1
      containers:
      - {name: client, image: busybox, command: [sleep, infinity]}
`)
	s.rolledOut(shop, "client")
	return client{s, s.pods(shop, "app=client")[0]}
}

// client is a pod that calls services.
type client struct {
	site
	pod string
}

// answers is the number of answers by "CLUSTER/POD", or "" for calls without a good answer.
type answers map[string]int

// call calls the service n times, each time with a connection of its own.
func (c client) call(n int, curl ...string) answers {
	c.t.Helper()
	args := strings.Join(append(curl, "http://web:9080/reviews/0"), " ")
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do curl -s -m 5 -w '\n' %s; echo; i=$((i+1)); done`, n, args)
	out, err := c.Exec(c.t.Context(), shop, c.pod, "client", "sh", "-c", script)
	if err != nil {
		c.t.Fatal(err)
	}
	got, good := answers{}, 0
	for line := range strings.Lines(out) {
		var answer struct{ Podname, Clustername string }
		if json.Unmarshal([]byte(line), &answer) == nil && answer.Podname != "" {
			got[answer.Clustername+"/"+answer.Podname]++
			good++
		}
	}
	if good < n {
		got[""] = n - good
		c.t.Logf("of %d calls %d failed: %.300s", n, n-good, out)
	}
	return got
}

// good returns how many calls were answered, and by how many pods; of a cluster, or of all if it is "".
func (a answers) good(cluster string) (calls, pods int) {
	for who, n := range a {
		if who != "" && strings.HasPrefix(who, cluster) {
			calls += n
			pods++
		}
	}
	return calls, pods
}

// all returns a check that all of n calls are answered by the given number of pods of a cluster.
func (a answers) all(cluster string, n, pods int) error {
	if calls, by := a.good(cluster); calls != n || by != pods {
		return fmt.Errorf("%d calls were answered by %d pods of %q, want %d by %d: %v", calls, by, cluster, n, pods, a)
	}
	return nil
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
