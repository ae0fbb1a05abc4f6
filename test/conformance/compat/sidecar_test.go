package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait on a busy machine.
const patience = 2 * time.Minute

// shopText is services and their client. "ours" has our agent, all others have Istio's: "beside" as a
// container beside the application, "native" as a restartable init container. Only mutual TLS is
// accepted.
const shopText = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: v1
kind: Service
metadata: {name: theirs, namespace: shop}
spec: {selector: {app: theirs}, ports: [{name: http, port: 9080}]}
---
apiVersion: v1
kind: Service
metadata: {name: ours, namespace: shop}
spec: {selector: {app: ours}, ports: [{name: http, port: 9080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs, namespace: shop, labels: {app: theirs}, annotations: {sidecar.istio.io/proxyImage: "istio-proxyv2:1"}}
spec: {containers: [{name: app, image: "examples-bookinfo-ratings-v1:1", ports: [{containerPort: 9080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ours, namespace: shop, labels: {app: ours}}
spec: {containers: [{name: app, image: "examples-bookinfo-ratings-v1:1", ports: [{containerPort: 9080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: beside, namespace: shop}
spec: {selector: {app: beside}, ports: [{name: http, port: 9090}]}
---
apiVersion: v1
kind: Service
metadata: {name: native, namespace: shop}
spec: {selector: {app: native}, ports: [{name: http, port: 9090}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: beside
  namespace: shop
  labels: {app: beside}
  annotations:
    sidecar.istio.io/proxyImage: istio-proxyv2:1
    sidecar.istio.io/nativeSidecar: "false"
    proxy.istio.io/config: '{proxyMetadata: {EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "true"}}'
spec: {terminationGracePeriodSeconds: 120, containers: [{name: app, image: "held-calls:1", ports: [{containerPort: 9090}]}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: native
  namespace: shop
  labels: {app: native}
  annotations: {sidecar.istio.io/proxyImage: istio-proxyv2:1, sidecar.istio.io/nativeSidecar: "true"}
spec: {terminationGracePeriodSeconds: 120, containers: [{name: app, image: "held-calls:1", ports: [{containerPort: 9090}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client}, annotations: {sidecar.istio.io/proxyImage: "istio-proxyv2:1"}}
spec: {containers: [{name: app, image: "curl:1", command: [sleep, infinity]}]}
`

// TestIstioOnOurControlPlane: Istio's pilot-agent and istioctl with our control plane on a cluster.
func TestIstioOnOurControlPlane(t *testing.T) {
	requirePeers(t)
	s := newShop(t)
	s.waitReady("theirs", "ours", "client", "beside", "native")

	t.Run("Istio's agent", func(t *testing.T) {
		// The certificate must be of our authority: with STRICT neither side accepts another one.
		for _, host := range []string{"theirs", "ours"} {
			serving.Eventually(t, patience, "a call from a sidecar with Istio's agent to "+host, func() error {
				out, err := s.cluster.Exec(t.Context(), "shop", "client", "app", "curl", "-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "http://"+host+":9080/ratings/0")
				if err == nil && out != "200" {
					err = errors.New(out)
				}
				return err
			})
		}
		if out, err := s.cluster.Exec(t.Context(), "shop", "client", "istio-proxy", "/usr/local/bin/pilot-agent", "request", "GET", "certs"); err != nil ||
			!strings.Contains(out, "spiffe://cluster.local/ns/shop/sa/default") {
			t.Errorf("the agent's certificates: %v\n%s", err, out)
		}
	})
	t.Run("istioctl", s.istioctlAnswers)
	t.Run("revision tag", s.tagRevision)
	for _, name := range []string{"beside", "native"} {
		t.Run("drain of a sidecar, "+name, func(t *testing.T) { s.drain(t, name) })
	}
}

// shop is a cluster with our control plane and pods with agents of both.
type shop struct {
	*testing.T
	cluster  *cluster.Cluster
	istioctl string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	cluster.RequireNode(t)
	images, err := mesh.BuildImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, err := heldCallsImage()
	if err != nil {
		t.Fatal(err)
	}
	images = append(image.Map{held, istioProxyImage(t, "istio-proxyv2:*")}, images...)
	s := &shop{T: t, istioctl: peer(t, "istioctl")}
	s.cluster = cluster.Start(t, cluster.Options{Tier: cluster.Node, Images: images})
	if err := mesh.InstallCharts(t.Context(), s.cluster.Programs(), s.cluster.Kubeconfig(), mesh.Charts()[:2]...); err != nil {
		t.Fatal(err)
	}
	if err := s.cluster.Apply(t.Context(), shopText); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.showLogs()
		}
	})
	return s
}

// waitReady waits until all containers of pods are ready, the agent's readiness probe included.
func (s *shop) waitReady(names ...string) {
	s.Helper()
	for _, name := range names {
		serving.Eventually(s, patience, "pod "+name+" is ready", func() error {
			pod, err := s.cluster.Client(s).CoreV1().Pods("shop").Get(s.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("it is %s", pod.Status.Phase)
		})
	}
}

func (s *shop) showLogs() {
	for _, pod := range []string{"theirs", "client", "beside", "native"} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, container := range []string{"istio-init", "istio-proxy"} {
			cmd, err := s.cluster.Kubectl(ctx, "logs", "-n", "shop", pod, "-c", container, "--tail=40")
			if err != nil {
				return
			}
			out, _ := cmd.CombinedOutput()
			s.Logf("the end of the log of %s in %s:\n%s", container, pod, out)
		}
	}
}

// ctl runs istioctl and returns what it prints.
func (s *shop) ctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.istioctl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// istioctlAnswers holds what istioctl's commands print of our control plane and its proxies.
func (s *shop) istioctlAnswers(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"proxy-status", []string{"client.shop", "ours.shop", "theirs.shop", "istiod-"}},
		{"proxy-config clusters client.shop", []string{"ours.shop.svc.cluster.local"}},
		{"proxy-config listeners client.shop", []string{"15001", "9080"}},
		{"proxy-config routes client.shop", []string{"9080", "theirs.shop"}},
		{"proxy-config endpoints client.shop", []string{"outbound|9080||ours.shop.svc.cluster.local", "HEALTHY"}},
		{"proxy-config secret client.shop", []string{"ROOTCA", "ACTIVE"}},
		{"analyze -n shop", []string{"No validation issues found"}},
		{"x internal-debug syncz", []string{"client.shop"}},
		{"version -o json", []string{`"Component": "pilot"`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			serving.Eventually(t, patience, c.args, func() error {
				out, err := s.ctl(t, strings.Fields(c.args)...)
				for _, want := range c.want {
					if err == nil && !strings.Contains(out, want) {
						err = fmt.Errorf("%q is missing", want)
					}
				}
				if err != nil {
					return fmt.Errorf("%w in\n%s", err, out)
				}
				return nil
			})
		})
	}
	t.Run("version", func(t *testing.T) {
		out, err := s.ctl(t, "version", "-o", "json")
		var got struct {
			MeshVersion      []struct{ Info struct{ Version string } }
			DataPlaneVersion []struct{ ID string }
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || len(got.MeshVersion) == 0 || len(got.DataPlaneVersion) < 3 {
			t.Errorf("%v: %s", err, out)
		}
	})
}
