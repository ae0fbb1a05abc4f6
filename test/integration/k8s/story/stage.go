package story

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// Audience is who hears the story.
type Audience interface {
	// Scene opens a scene.
	Scene(number, of int, title string)
	// Say prints the current step, Show the applied objects.
	Say(format string, args ...any)
	Show(yaml string)
	// Verdict prints the expected and the actual result.
	Verdict(held bool, what, expected, saw string)
}

// Stage is where the story plays.
type Stage struct {
	audience Audience
	cluster  *cluster.Cluster
	client   *kubernetes.Clientset
	root     string // of this checkout
	http     *http.Client
	gateway  string // its address, once there is one
	failed   int
	load     Tally // of all scenes
}

// NewStage makes a stage of a cluster with a node, without Istio's kinds.
func NewStage(c *cluster.Cluster, a Audience) (*Stage, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	return &Stage{
		audience: a,
		cluster:  c,
		client:   client,
		root:     root,
		http:     &http.Client{Transport: c.Transport(), Timeout: callTimeout},
	}, nil
}

// Close releases all resources of the stage; the cluster stays.
func (s *Stage) Close() { s.http.CloseIdleConnections() }

// Gateway is the ingress gateway's address in the cluster; empty before there is one.
func (s *Stage) Gateway() string { return s.gateway }

const (
	// callTimeout is longer than any successful call.
	callTimeout = 5 * time.Second
	// patience is the timeout of each wait on a busy machine.
	patience = 90 * time.Second
	pause    = 50 * time.Millisecond
)

// reportVerdict prints a verdict, and counts unexpected ones.
func (s *Stage) reportVerdict(held bool, what, expected, saw string) {
	if !held {
		s.failed++
	}
	s.audience.Verdict(held, what, expected, saw)
}

// awaitCondition waits until something holds.
func awaitCondition(ctx context.Context, what string, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-time.After(pause):
		}
	}
}

// readSample reads a file of samples.
func (s *Stage) readSample(path ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join(append([]string{s.root, "samples"}, path...)...))
	return string(text), err
}

// applyFile applies a file of Bookinfo, and shows it if it is a rule.
func (s *Stage) applyFile(ctx context.Context, path string, show bool) error {
	text, err := s.readSample("bookinfo", path)
	if err != nil {
		return err
	}
	s.audience.Say("kubectl apply -f samples/bookinfo/%s", path)
	if show {
		s.audience.Show(text)
	}
	return s.cluster.Apply(ctx, text)
}

// runKubectl runs kubectl and returns its output.
func (s *Stage) runKubectl(ctx context.Context, args ...string) (string, error) {
	cmd, err := s.cluster.Kubectl(ctx, args...)
	if err != nil {
		return "", err
	}
	s.audience.Say("kubectl %s", strings.Join(args, " "))
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("kubectl %s: %w: %s", args[0], err, text)
	}
	return text, nil
}

// getPath sends a request to the gateway.
func (s *Stage) getPath(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.gateway+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// reviewsPath is answered by productpage with the answer of reviews: a call through the gateway and
// two services.
const reviewsPath = "/api/v1/products/0/reviews"

// reviewsVersion returns the version of reviews that answers.
func (s *Stage) reviewsVersion(ctx context.Context) (string, error) {
	code, body, err := s.getPath(ctx, reviewsPath)
	if err != nil {
		return "", err
	}
	return versionOf(code, body)
}

// versionOf reads the version of reviews from an answer.
func versionOf(code int, body []byte) (string, error) {
	name := podName(body)
	if code != http.StatusOK || name == "" {
		return "", fmt.Errorf("%d: %.200s", code, body)
	}
	parts := strings.SplitN(name, "-", 3)
	return strings.Join(parts[:min(2, len(parts))], "-"), nil
}

// podName returns the Pod that an answer of reviews names, or "" for another answer.
func podName(body []byte) string {
	var answer struct {
		PodName string `json:"podname"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return answer.PodName
}

// countVersions counts which versions answer.
func (s *Stage) countVersions(ctx context.Context, calls int) (map[string]int, error) {
	seen := map[string]int{}
	for range calls {
		v, err := s.reviewsVersion(ctx)
		if err != nil {
			return nil, err
		}
		seen[v]++
	}
	return seen, nil
}

// listPods lists the Pods of a selector that are not about to go.
func (s *Stage) listPods(ctx context.Context, selector string) ([]corev1.Pod, error) {
	list, err := s.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var stay []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			stay = append(stay, p)
		}
	}
	return stay, nil
}

// awaitDeployments waits until all Deployments of the namespace have rolled out, and the pods that
// they replaced are gone.
func (s *Stage) awaitDeployments(ctx context.Context, selector string) error {
	return awaitCondition(ctx, "deployments "+selector, func(ctx context.Context) error {
		list, err := s.client.AppsV1().
			Deployments(metav1.NamespaceDefault).
			List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		want := int32(0)
		for _, d := range list.Items {
			want += *d.Spec.Replicas
			if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != *d.Spec.Replicas ||
				d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("%s has %d of %d", d.Name, d.Status.AvailableReplicas, *d.Spec.Replicas)
			}
		}
		pods, err := s.client.CoreV1().
			Pods(metav1.NamespaceDefault).
			List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil && len(pods.Items) != int(want) {
			err = fmt.Errorf("there are %d pods, want %d", len(pods.Items), want)
		}
		return err
	})
}

// installCharts installs the charts.
func (s *Stage) installCharts(ctx context.Context) error {
	for _, chart := range mesh.Charts() {
		s.audience.Say(
			"helm install %s manifests/charts/%s -n %s --create-namespace --wait",
			chart.Release,
			chart.Chart,
			chart.Namespace,
		)
		if err := mesh.InstallCharts(ctx, s.cluster.Programs(), s.cluster.Kubeconfig(), chart); err != nil {
			return err
		}
	}
	return s.findGateway(ctx, "istio-system")
}

// findGateway waits until the ingress gateway of a namespace has an address.
func (s *Stage) findGateway(ctx context.Context, namespace string) error {
	return awaitCondition(ctx, "the gateway's address", func(ctx context.Context) error {
		service, err := s.client.CoreV1().Services(namespace).Get(ctx, "istio-ingressgateway", metav1.GetOptions{})
		if err == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("it has none")
		}
		if err == nil {
			s.gateway = service.Status.LoadBalancer.Ingress[0].IP
		}
		return err
	})
}
