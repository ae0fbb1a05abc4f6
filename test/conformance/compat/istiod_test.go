package compat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayText is a gateway at port %[1]d and the backend behind it at port %[2]d.
const gatewayText = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec: {hosts: ["*"], gateways: [istio-system/public], http: [{route: [{destination: {host: web.example.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: %[2]d}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mutual, namespace: default}
spec: {hosts: [mutual.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: mutual, namespace: default}
spec: {host: mutual.example.com, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: none, namespace: istio-system}
spec: {metrics: [{overrides: [{disabled: true}]}]}
`

// TestOurAgentWithIstiod: a gateway with our agent and upstream Envoy, configured by istiod over TLS: it gets a certificate, becomes
// ready, serves a call, and ends in order. istiod's settings keep out the filters that only Istio's Envoy has.
func TestOurAgentWithIstiod(t *testing.T) {
	requirePeers(t)
	proxy, istiod := envoy.RequireBinary(t), peer(t, "istiod")
	agent, err := program.Build(t.Context(), "cmd/pilot-agent")
	if err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(backend.Close)
	dir := t.TempDir()
	ports := serving.FreePorts(t, 9)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }

	// istiod does not start without an API server (it panics). That also reviews the agent's token.
	c := cluster.Start(t, cluster.Options{IstioKinds: true})
	client := c.Client(t)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts("istio-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "gateway"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), fmt.Sprintf(gatewayText, ports[8], portOf(t, backend.URL))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "meshconfig"), "defaultConfig: {}\n")
	run(t, dir, "istiod", []string{
		"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false", "POD_NAMESPACE=istio-system", "POD_NAME=istiod",
		"ISTIOD_CUSTOM_HOST=localhost", "INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=",
	}, istiod, "discovery", "--kubeconfig", c.Kubeconfig(), "--meshConfig", filepath.Join(dir, "meshconfig"), "--networksConfig", filepath.Join(dir, "none"),
		"--grpcAddr", at(0), "--httpAddr", at(1), "--monitoringAddr", at(2), "--secureGRPCAddr", at(7), "--httpsAddr=", "--ctrlz_port", "0")
	eventually(t, "istiod is ready", func() error { return get("http://" + at(1) + "/ready") })
	eventually(t, "istiod's roots", func() error {
		roots, err := client.CoreV1().ConfigMaps("istio-system").Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		if err != nil {
			return err
		}
		write(t, filepath.Join(dir, "var/run/secrets/istio/root-cert.pem"), roots.Data["root-cert.pem"])
		return nil
	})
	write(t, filepath.Join(dir, "var/run/secrets/tokens/istio-token"), c.Token(t, "istio-system", "gateway", "istio-ca"))

	proxyConfig, err := json.Marshal(map[string]any{
		"discoveryAddress": fmt.Sprintf("localhost:%d", ports[7]), "binaryPath": proxy, "configPath": dir, "concurrency": 1,
		"proxyAdminPort": ports[3], "statusPort": ports[4], "terminationDrainDuration": "1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	gateway := run(t, dir, "agent", []string{
		"POD_NAME=gateway", "POD_NAMESPACE=istio-system", "INSTANCE_IP=127.0.0.1", "PROXY_CONFIG=" + string(proxyConfig),
		`ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`, "ISTIO_META_CLUSTER_ID=Kubernetes", "SERVICE_ACCOUNT=gateway",
		"ENVOY_STATUS_PORT=" + strconv.Itoa(ports[5]), "ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(ports[6]),
	}, agent, "proxy", "router", "--domain", "istio-system.svc.cluster.local")
	eventually(t, "the gateway is ready", func() error { return get("http://" + at(5) + "/healthz/ready") })
	eventually(t, "a call through the gateway", func() error { return get("http://" + at(8) + "/") })
	eventually(t, "a certificate of istiod's authority", func() error {
		page, err := serving.Page("http://" + at(3) + "/certs")
		if err == nil && !strings.Contains(page, "spiffe://cluster.local/ns/istio-system/sa/gateway") {
			err = fmt.Errorf("Envoy has the certificates %s", page)
		}
		return err
	})

	if err := gateway.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- gateway.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the agent ends with %v", err)
		}
	case <-time.After(patience):
		t.Error("the agent does not end")
	}
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	serving.Eventually(t, patience, what, check)
}

func get(url string) error {
	_, err := serving.Page(url)
	return err
}

func portOf(t *testing.T, url string) int {
	t.Helper()
	port, err := strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts a program that is killed with the test. Its log is shown if the test fails.
func run(t *testing.T, dir, name string, env []string, path string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(dir, name+".log")
	log, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(file)
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	return cmd
}
