package multicluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/testkit/cluster"
)

// shared is the cluster that config is read from.
var shared = cluster.NewShared(cluster.Options{GatewayAPI: cluster.Standard})

// other is one that is read from there.
var other = cluster.NewShared(cluster.Options{NoIstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(other.Around(m))) }

const (
	patience = 30 * time.Second
	poll     = 20 * time.Millisecond
)

// controlPlane is one that runs in the test's process, and reads a cluster.
type controlPlane struct {
	t         *testing.T
	http, xds string
	log       *safeBuffer
	ended     chan error
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

// startControlPlane runs a control plane in a namespace of the cluster until the test ends. It is ready when it returns, unless
// change has it wait for something.
func startControlPlane(t *testing.T, c *cluster.Cluster, namespace string, change func(*discovery.Options)) *controlPlane {
	t.Helper()
	o := discovery.Defaults()
	o.GRPCAddr, o.HTTPAddr, o.SecureGRPCAddr = freeAddress(t), freeAddress(t), freeAddress(t)
	o.HTTPSAddr, o.MonitoringAddr, o.ControlZPort = "", "", 0
	o.MeshConfigFile, o.NetworksConfigFile = "", ""
	o.Namespace, o.PodName = namespace, "istiod-test"
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	p := &controlPlane{t: t, http: o.HTTPAddr, xds: o.SecureGRPCAddr, log: new(safeBuffer), ended: make(chan error, 1)}
	o.Logs.Out = p.log
	change(&o)
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { p.ended <- discovery.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-p.ended; err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", p.log)
		}
	})
	p.until("the control plane is ready", patience, func() error {
		_, err := p.get("/ready")
		return err
	})
	return p
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

func freePort(t *testing.T) int {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeAddress(t))
	n, _ := strconv.Atoi(port)
	return n
}

func (p *controlPlane) get(path string) (string, error) {
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

// until waits until check has no error, and gives how long that took.
func (p *controlPlane) until(what string, limit time.Duration, check func() error) time.Duration {
	p.t.Helper()
	began := time.Now()
	var err error
	for time.Since(began) < limit {
		select {
		case failed := <-p.ended:
			p.ended <- failed
			p.t.Fatalf("the control plane ended (%v) before %s", failed, what)
		case <-time.After(poll):
		}
		if err = check(); err == nil {
			p.t.Logf("%5.1fs until %s", time.Since(began).Seconds(), what)
			return time.Since(began)
		}
	}
	p.t.Fatalf("waited in vain until %s: %v", what, err)
	return 0
}

// says gives a check that the control plane's log has a text.
func (p *controlPlane) says(what string) func() error {
	return func() error { return contains(p.log.String(), what) }
}

func contains(text, what string) error {
	if !strings.Contains(text, what) {
		return fmt.Errorf("there is no word of %q: %s", what, text)
	}
	return nil
}

// pushes gives how many responses of each type were sent.
func (p *controlPlane) pushes() map[string]int {
	p.t.Helper()
	text, err := p.get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^pilot_xds_pushes\{type="([a-z]+)"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}
