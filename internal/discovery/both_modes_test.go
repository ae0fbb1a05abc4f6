package discovery

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// mode is a way to authenticate workloads: by tokens that the control plane signs, or by tokens of
// an API server, which reviews them. Tests that run in both modes expect the same results.
type mode struct {
	*laptop
	// control is the control plane's namespace. shop contains the accounts web and api. bank is a
	// namespace without accounts.
	control, shop, bank string
	// token returns a token of an account of the namespace shop for an audience.
	token func(account, audience string) string
	// ended is an expired token, and gone a token of a deleted account.
	ended, gone string
	// root is the mesh's root certificate in PEM.
	root string
}

// inBothModes runs a test in both modes: without Kubernetes and with an API server.
func inBothModes(t *testing.T, test func(t *testing.T, m *mode)) {
	t.Helper()
	t.Run("workload tokens", func(t *testing.T) { test(t, workloadTokens(t)) })
	t.Run("an API server's tokens", func(t *testing.T) { test(t, serviceAccountTokens(t)) })
}

func workloadTokens(t *testing.T) *mode {
	t.Helper()
	l := startLaptop(t, func(*Options) {})
	root, err := os.ReadFile(filepath.Join(l.caDir, "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &mode{
		laptop: l, control: "istio-system", shop: "shop", bank: "bank", root: string(root),
		token: func(account, audience string) string { return l.token("shop", account, time.Hour, audience) },
		ended: l.token("shop", "web", -time.Hour, "istio-ca"),
		gone:  l.token("shop", "nobody", time.Hour, "istio-ca"),
	}
}

func serviceAccountTokens(t *testing.T) *mode {
	t.Helper()
	c := shared.Start(t)
	client := c.Client(t)
	m := &mode{control: c.Namespace(t, "istio-system", nil), shop: c.Namespace(t, "shop", nil), bank: c.Namespace(t, "bank", nil)}
	accounts := client.CoreV1().ServiceAccounts(m.shop)
	for _, name := range []string{"web", "api", "nobody"} {
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.token = func(account, audience string) string { return c.Token(t, m.shop, account, audience) }

	// The minimum lifetime of a token is ten minutes, but one that is bound to a pod ends with the
	// pod.
	pod, err := client.CoreV1().Pods(m.shop).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0"},
		Spec:       corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.ended = c.TokenOf(t, m.shop, "web", authenticationv1.TokenRequestSpec{
		Audiences: []string{"istio-ca"}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	})
	running, err := client.CoreV1().Pods(m.shop).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
		Spec:       corev1.PodSpec{NodeName: "node", ServiceAccountName: "web", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}}}
	if _, err := client.CoreV1().Pods(m.shop).UpdateStatus(t.Context(), running, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	if err := client.CoreV1().Pods(m.shop).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	m.gone = m.token("nobody", "istio-ca")
	if err := accounts.Delete(t.Context(), "nobody", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	m.laptop = inCluster(t, c, m.control, func(*Options) {})
	m.eventually("the root is published", func() error {
		config, err := client.CoreV1().ConfigMaps(m.shop).Get(context.Background(), "istio-ca-root-cert", metav1.GetOptions{})
		m.root = config.Data["root-cert.pem"]
		return err
	})
	m.trust = x509.NewCertPool()
	m.trust.AppendCertsFromPEM([]byte(strings.TrimSpace(m.root)))
	return m
}
