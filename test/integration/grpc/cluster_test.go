package grpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	clustermesh "github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// shopOnCluster has pods in the namespace shop of a real cluster with meshpilot.
type shopOnCluster struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  *kubernetes.Clientset
	http    *http.Client
}

// newShop starts a cluster with a control plane that injects the pods of the namespace shop.
func newShop(t *testing.T) *shopOnCluster {
	t.Helper()
	cluster.RequireNode(t)
	envoy.RequireBinary(t)
	images, err := clustermesh.BuildImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	greeter, err := program.Build(t.Context(), "test/integration/grpc/greeter")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/usr/local/bin/greeter"
	images = append(images, image.Image{
		Match: "greeter:*", Entrypoint: []string{path}, Files: map[string]string{path: greeter},
	})
	c := cluster.Start(t, cluster.Options{Tier: cluster.Node, Images: images})
	// No gateway: there are no calls from outside.
	if err := clustermesh.InstallCharts(t.Context(), c.Programs(), c.Kubeconfig(), clustermesh.Charts()[:2]...); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &shopOnCluster{t: t, cluster: c, client: client, http: &http.Client{Transport: c.Transport()}}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// apply applies objects of the namespace shop.
func (s *shopOnCluster) apply(objects ...string) {
	s.t.Helper()
	if err := s.cluster.Apply(s.t.Context(), strings.Join(objects, "\n---\n")); err != nil {
		s.t.Fatal(err)
	}
}

// kubectl runs kubectl in the namespace.
func (s *shopOnCluster) kubectl(args ...string) {
	s.t.Helper()
	cmd, err := s.cluster.Kubectl(s.t.Context(), append([]string{"-n", "shop"}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}

// pods returns those of an application that are ready and stay.
func (s *shopOnCluster) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := s.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var ready []corev1.Pod
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				ready = append(ready, p)
			}
		}
	}
	return ready, nil
}

// rolledOut waits until Deployments have the pods that they are to have, and no others.
func (s *shopOnCluster) rolledOut(selector string) {
	s.t.Helper()
	serving.Eventually(s.t, rolloutPatience, "deployments "+selector, func() error {
		o := metav1.ListOptions{LabelSelector: selector}
		list, err := s.client.AppsV1().Deployments("shop").List(s.t.Context(), o)
		if err != nil {
			return err
		}
		want := 0
		for _, d := range list.Items {
			want += int(*d.Spec.Replicas)
			if n := *d.Spec.Replicas; d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != n || d.Status.AvailableReplicas != n {
				return fmt.Errorf("%s has %d of %d", d.Name, d.Status.AvailableReplicas, n)
			}
		}
		pods, err := s.client.CoreV1().Pods("shop").List(s.t.Context(), o)
		if err == nil && len(pods.Items) != want {
			err = fmt.Errorf("there are %d pods, want %d", len(pods.Items), want)
		}
		return err
	})
}

// rolloutPatience is the timeout of the wait for pods on a busy machine.
const rolloutPatience = 90 * time.Second

// controlPort is the port at which greeters receive the calls to make. Sidecars do not capture it.
const controlPort = 8081

// greeter is a pod that makes calls.
type greeter struct {
	shop    *shopOnCluster
	app     string
	control string
}

// greeter returns the one pod of an application.
func (s *shopOnCluster) greeter(app string) greeter {
	s.t.Helper()
	g := greeter{shop: s, app: app}
	serving.Eventually(s.t, rolloutPatience, app, func() error {
		pods, err := s.pods(s.t.Context(), app)
		if err == nil && len(pods) != 1 {
			err = fmt.Errorf("it has %d pods", len(pods))
		}
		if err == nil {
			g.control = fmt.Sprintf("http://%s:%d", pods[0].Status.PodIP, controlPort)
		}
		return err
	})
	return g
}

// tally is the result of calls as package greeter returns it.
type tally struct {
	Sent                     int
	Answers, Callers, Failed map[string]int
	Failures                 []string
	Early                    int
}

func (t tally) failed() (n int) {
	for _, f := range t.Failed {
		n += f
	}
	return n
}

func (g greeter) ask(method, path string, values url.Values) (tally, error) {
	ctx, cancel := context.WithTimeout(g.shop.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.control+path+"?"+values.Encode(), http.NoBody)
	if err != nil {
		return tally{}, err
	}
	resp, err := g.shop.http.Do(req)
	if err != nil {
		return tally{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	var t tally
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	return t, err
}

// calls makes calls and returns their results. Headers are NAME:VALUE.
func (g greeter) calls(target string, count int, headers ...string) (tally, error) {
	return g.ask(http.MethodPost, "/calls", url.Values{"target": {target}, "count": {strconv.Itoa(count)}, "header": headers})
}

// eventually makes calls until they end as they are to.
func (g greeter) eventually(what, target string, count int, holds func(tally) bool, headers ...string) tally {
	g.shop.t.Helper()
	var last tally
	serving.Eventually(g.shop.t, patience, g.app+": "+what, func() (err error) {
		if last, err = g.calls(target, count, headers...); err == nil && !holds(last) {
			err = fmt.Errorf("of calls to %s became %+v", target, last)
		}
		return err
	})
	return last
}

// answered waits until all calls are answered to a caller.
func (g greeter) answered(target, caller string, headers ...string) {
	g.shop.t.Helper()
	g.eventually("an answer to "+caller, target, 5, func(t tally) bool { return t.Callers[caller] == 5 }, headers...)
}

// refused waits until all calls end with a code.
func (g greeter) refused(target, code string, headers ...string) {
	g.shop.t.Helper()
	g.eventually("calls end with "+code, target, 5, func(t tally) bool { return t.Failed[code] == 5 }, headers...)
}

// underLoad calls targets all the while f runs: none of these calls may fail.
func (s *shopOnCluster) underLoad(what string, loads map[string]greeter, f func()) {
	s.t.Helper()
	for target, g := range loads {
		if _, err := g.ask(http.MethodPost, "/load", url.Values{"target": {target}, "rate": {strconv.Itoa(loadRate)}}); err != nil {
			s.t.Fatal(err)
		}
	}
	f()
	for target, g := range loads {
		serving.Eventually(s.t, patience, "enough calls", func() error {
			got, err := g.ask(http.MethodGet, "/load", url.Values{"target": {target}})
			if err == nil && got.Sent < enoughCalls {
				err = fmt.Errorf("%d calls", got.Sent)
			}
			return err
		})
		got, err := g.ask(http.MethodPost, "/load", url.Values{"target": {target}, "rate": {"0"}})
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Logf("%s: %s called %s %d times, %d failed, and %d by grpc-go itself; answers of %d pods",
			what, g.app, target, got.Sent, got.failed(), got.Early, len(got.Answers))
		if got.failed() > 0 || got.Sent == 0 {
			s.t.Errorf("%s: calls from %s to %s: %v failed of %d: %s", what, g.app, target, got.Failed, got.Sent, strings.Join(got.Failures, "\n"))
		}
	}
}

// loadRate is how many calls a second a greeter makes to a target, enoughCalls how many it makes at least while something changes.
const loadRate, enoughCalls = 100, 300
