package target_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

func TestParsePlane(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "plane")
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]target.Plane{
		binary:             {Kind: target.Meshpilot, Binary: binary},
		"istiod=" + binary: {Kind: target.Istiod, Binary: binary},
	} {
		if got, err := target.ParsePlane(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"consul=" + binary, binary + ".gone"} {
		if _, err := target.ParsePlane(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// TestKeys checks that a proxy and a control plane with the Keys authenticate each other.
func TestKeys(t *testing.T) {
	k, err := target.NewKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(k.Certificate, k.Key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(k.Authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		t.Fatal("no certificate in the authority's file")
	}
	credentials, err := k.Credentials(workload.Node{Namespace: "shop", ServiceAccount: "cart"})
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	server := tls.Server(there, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS12,
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- server.HandshakeContext(ctx) }()
	if _, _, err := credentials.ClientHandshake(ctx, "istiod.istio-system.svc", here); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	uris := server.ConnectionState().PeerCertificates[0].URIs
	if len(uris) != 1 || uris[0].String() != "spiffe://cluster.local/ns/shop/sa/cart" {
		t.Errorf("the proxy's identity is %v", uris)
	}
}

func TestPlaneThatCannotStart(t *testing.T) {
	binary, err := exec.LookPath("false")
	if err != nil {
		t.Fatal("the test needs a program that fails: ", err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := target.Plane{Kind: target.Meshpilot, Binary: binary}
	s := target.Settings{Dir: t.TempDir(), XDS: "127.0.0.1:1", HTTP: "127.0.0.1:2", Monitoring: "127.0.0.1:3"}
	if x, err := p.Start(context.Background(), s, log); err == nil {
		x.Stop(syscall.SIGKILL)
		t.Error("it started")
	}
}

func TestOwnCPU(t *testing.T) {
	before := target.OwnCPU()
	for n := 0; target.OwnCPU() == before; n++ {
		if n > 1<<24 {
			t.Fatal("the CPU clock does not advance")
		}
	}
	if target.MachineCPU() <= 0 {
		t.Error("the machine was never busy")
	}
}

// TestEmptyAPI reads from it as clients of Kubernetes do.
func TestEmptyAPI(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	a, err := target.StartEmptyAPI(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("shop")
	list, err := pods.List(t.Context(), metav1.ListOptions{Limit: 500})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d pods, %v", len(list.Items), err)
	}
	if _, err := pods.Get(t.Context(), "cart", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod: %v", err)
	}
	if _, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); err == nil {
		t.Error("a pod was created")
	}
	watch, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
}
