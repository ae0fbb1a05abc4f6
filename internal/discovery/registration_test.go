package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// signs runs an authority that signs every approved request for one signer, as cert-manager does.
func signs(t *testing.T, client kubernetes.Interface, name string, by *pki.Pair) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	requests := client.CertificatesV1().CertificateSigningRequests()
	w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + name})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok || len(r.Status.Certificate) > 0 || len(r.Status.Conditions) == 0 {
				continue
			}
			block, _ := pem.Decode(r.Spec.Request)
			csr, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				t.Error(err)
				continue
			}
			template := &x509.Certificate{
				SerialNumber: by.Certificate.SerialNumber, URIs: csr.URIs, DNSNames: csr.DNSNames, NotBefore: by.Certificate.NotBefore, NotAfter: by.Certificate.NotAfter,
				KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			}
			der, err := x509.CreateCertificate(nil, template, by.Certificate, csr.PublicKey, by.Key)
			if err != nil {
				t.Error(err)
				continue
			}
			r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			if _, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
				t.Errorf("sign: %v", err)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		w.Stop()
		done.Wait()
	})
}

// TestRegistrationAuthority: Kubernetes signs the certificates of workloads and of the control
// plane. A root is trusted only for the signers that its entry lists.
func TestRegistrationAuthority(t *testing.T) {
	c := shared.Start(t)
	client := c.Client(t)
	control, shop := c.Namespace(t, "istio-system", nil), c.Namespace(t, "shop", nil)
	if _, err := client.CoreV1().ServiceAccounts(shop).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	root, other := pki.Authority("external"), pki.Authority("of another signer")
	file := filepath.Join(t.TempDir(), "root-cert.pem")
	if err := os.WriteFile(file, other.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	mesh, err := yaml.Marshal(map[string]any{"caCertificates": []map[string]any{
		{"pem": string(root.CertificatePEM()), "certSigners": []string{"mesh.example.com/workloads"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	signs(t, client, "mesh.example.com/workloads", root)
	signs(t, client, "mesh.example.com/others", root)
	l := inClusterWith(t, c, control, map[string]string{".mesh": string(mesh)}, func(o *Options) {
		o.Authority.External, o.Authority.SignerDomain, o.Authority.ExternalRoot = "ISTIOD_RA_KUBERNETES_API", "mesh.example.com", file
		o.Authority.CertProvider = "k8s.io/mesh.example.com/workloads"
	})
	l.trust = root.Pool()
	l.eventually("the control plane has a certificate", func() error {
		conn, err := tls.Dial("tcp", l.secure, &tls.Config{RootCAs: l.trust, ServerName: l.names, NextProtos: []string{"h2"}})
		if err != nil {
			return err
		}
		return conn.Close()
	})
	ctx := bearing(t.Context(), c.Token(t, shop, "web", "istio-ca"))
	ask := func(signer, path string) (*tls.Certificate, error) {
		key := pki.NewKey()
		der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: path}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return l.certificateFor(ctx, nil, key, &security.IstioCertificateRequest{
			Csr:              string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
			Metadata:         &structpb.Struct{Fields: map[string]*structpb.Value{"CertSigner": structpb.NewStringValue(signer)}},
			ValidityDuration: 3600,
		})
	}
	own, err := ask("workloads", "/ns/"+shop+"/sa/web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Leaf.Verify(x509.VerifyOptions{Roots: l.trust}); err != nil || own.Leaf.URIs[0].Path != "/ns/"+shop+"/sa/web" {
		t.Errorf("certificate for %v, %v", own.Leaf.URIs, err)
	}
	if _, err := ask("workloads", "/ns/"+shop+"/sa/other"); err == nil {
		t.Error("a request for another identity was forwarded")
	}
	const refusal = "signer mesh.example.com/others returned an invalid certificate"
	if _, err := ask("others", "/ns/"+shop+"/sa/web"); err == nil || !strings.Contains(l.log.String(), refusal) {
		t.Errorf("a certificate from another signer with the same root: error %v", err)
	}
	l.eventually("the root is published", func() error {
		_, err := client.CoreV1().ConfigMaps(shop).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		return err
	})
}
