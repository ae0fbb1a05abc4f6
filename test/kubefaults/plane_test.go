package kubefaults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/testkit/cluster"
)

var shared = cluster.NewShared(cluster.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// patience bounds every wait.
const patience = 60 * time.Second

// plane is a control plane that runs in the test's process, on loopback ports of its own.
type plane struct {
	t          *testing.T
	http, grpc string
	log        *safeBuffer
	done       chan struct{} // closed when it ended
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// launch starts a control plane that reads the API server of a client's configuration. It does not wait for it.
func launch(t *testing.T, c *cluster.Cluster, config *rest.Config, change func(*discovery.Options)) *plane {
	t.Helper()
	p := &plane{t: t, http: freeAddress(t), grpc: freeAddress(t), log: new(safeBuffer), done: make(chan struct{})}
	o := discovery.Defaults()
	o.GRPCAddr, o.HTTPAddr = p.grpc, p.http
	o.SecureGRPCAddr, o.HTTPSAddr, o.MonitoringAddr, o.ControlZPort = "", "", "", 0
	o.MeshConfigFile, o.NetworksConfigFile = filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "absent")
	o.Kubernetes.Kubeconfig = c.KubeconfigOf(t, config)
	o.Namespace = "kube-public" // which is there
	o.PodName = "istiod-" + filepath.Base(t.TempDir())
	o.Logs.Out = p.log
	if change != nil {
		change(&o)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	go func() {
		defer close(p.done)
		err = discovery.Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
		if err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", p.log)
		}
	})
	return p
}

func start(t *testing.T, c *cluster.Cluster, config *rest.Config) *plane {
	t.Helper()
	p := launch(t, c, config, nil)
	p.eventually("ready", p.ready)
	return p
}

func (p *plane) get(path string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + p.http + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, r.Status, body)
	}
	return string(body), err
}

func (p *plane) ready() error {
	_, err := p.get("/ready")
	return err
}

// age gives the metric of how old what is known of the cluster may be, in seconds.
func (p *plane) age() (float64, error) {
	page, err := p.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(page, "\n") {
		if value, ok := strings.CutPrefix(line, `meshpilot_source_age_seconds{source="kubernetes/Kubernetes"} `); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("there is no metric of the age")
}

// eventually tries until there is no error.
func (p *plane) eventually(what string, try func() error) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s: the control plane has ended", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// says waits until the log, from a place on, has a text in it.
func (p *plane) says(from int, text string) {
	p.t.Helper()
	p.eventually("the log says "+text, func() error {
		if !strings.Contains(p.log.String()[from:], text) {
			return errors.New("it does not")
		}
		return nil
	})
}

// reads is what the source of a control plane asks for, as manifests/charts grants it.
func reads() []rbacv1.PolicyRule {
	follow := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces"}, Verbs: follow},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: follow},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "ingressclasses"}, Verbs: follow},
		{APIGroups: []string{"networking.istio.io", "security.istio.io", "telemetry.istio.io", "extensions.istio.io"}, Resources: []string{"*"}, Verbs: follow},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: follow},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: follow},
	}
}
