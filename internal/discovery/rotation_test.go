package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// workload repeatedly renews its certificate, presents it to other workloads and verifies theirs.
type workload struct {
	l     *laptop
	id    string
	token string
	addr  string

	mu    sync.Mutex
	own   *tls.Certificate
	trust []*x509.Certificate
}

// renew requests a new certificate, authenticated by the current one, or by the token the first
// time.
func (w *workload) renew(ctx context.Context) error {
	w.mu.Lock()
	own, trust := w.own, w.trust
	w.mu.Unlock()
	pool := x509.NewCertPool()
	for _, r := range trust {
		pool.AddCert(r)
	}
	conn, err := dialTo(w.l.secure, "istiod.istio-system.svc", pool, own)
	if err != nil {
		return err
	}
	defer conn.Close()
	key := pki.NewKey()
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key)
	if err != nil {
		return err
	}
	answer, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(bearing(ctx, w.token), &security.IstioCertificateRequest{
		Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
	})
	if err != nil {
		return err
	}
	last := len(answer.CertChain) - 1
	chain, chainErr := ca.ParseCertificates([]byte(strings.Join(answer.CertChain[:last], "")))
	roots, rootsErr := ca.ParseCertificates([]byte(answer.CertChain[last]))
	if err := errors.Join(chainErr, rootsErr); err != nil {
		return err
	}
	next := &tls.Certificate{PrivateKey: key}
	for _, c := range chain {
		next.Certificate = append(next.Certificate, c.Raw)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own, w.trust = next, roots
	return nil
}

func (w *workload) trusts(list ...*x509.Certificate) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.trust) == len(list) && !slices.ContainsFunc(list, func(c *x509.Certificate) bool { return !slices.ContainsFunc(w.trust, c.Equal) })
}

// settings returns the TLS settings of one side of a connection to another workload.
func (w *workload) settings(peer string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, SessionTicketsDisabled: true, // verified below by SPIFFE's rules
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.own, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error { return w.verify(s.PeerCertificates, peer) },
	}
}

func (w *workload) verify(chain []*x509.Certificate, peer string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	w.mu.Lock()
	for _, r := range w.trust {
		roots.AddCert(r)
	}
	w.mu.Unlock()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return err
	}
	id, err := spiffe.LeafID(chain[0])
	if err == nil && peer != "" && id.String() != peer {
		err = fmt.Errorf("peer identity = %s, want %s", id, peer)
	}
	return err
}

// serve answers connections of other workloads until the context ends.
func (w *workload) serve(ctx context.Context) error {
	l, err := tls.Listen("tcp", "127.0.0.1:0", w.settings(""))
	if err != nil {
		return err
	}
	w.addr = l.Addr().String()
	context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept ends with it
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Write([]byte("hello")) // the client reports a missing answer
			}()
		}
	}()
	return nil
}

// call connects to another workload and reads its answer.
func (w *workload) call(other *workload) error {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: w.settings(other.id)}
	c, err := d.Dial("tcp", other.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err == nil && string(text) != "hello" {
		err = fmt.Errorf("answer = %q", text)
	}
	return err
}

// TestRotationFailsNoHandshake rotates from root A to A and B, and then to B, with changes of the
// intermediate in between, while workloads continuously renew their certificates and call each
// other. No call or renewal may fail. F11.
func TestRotationFailsNoHandshake(t *testing.T) {
	a, b := pki.Authority("A"), pki.Authority("B")
	under := func(root *pki.Pair) *pki.Pair {
		return root.Issue(&x509.Certificate{IsCA: true, Subject: root.Certificate.Subject})
	}
	a1, a2, b1 := under(a), under(a), under(b)
	dir := t.TempDir()
	put := func(signing *pki.Pair, roots ...*pki.Pair) {
		files := (&authorityPair{signing}).files()
		for _, r := range roots {
			files["root-cert.pem"] = append(files["root-cert.pem"], r.CertificatePEM()...)
		}
		for name, text := range files { // one file after the other: for a moment they do not match
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(a1, a)
	l := startLaptop(t, func(o *Options) { o.Authority.PluggedDir, o.Authority.Poll = dir, 20*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()

	workloads := make([]*workload, 4)
	for i := range workloads {
		name := fmt.Sprintf("w%d", i)
		workloads[i] = &workload{
			l: l, id: "spiffe://cluster.local/ns/shop/sa/" + name, token: l.token("shop", name, time.Hour, "istio-ca"), trust: []*x509.Certificate{a.Certificate},
		}
		if err := errors.Join(workloads[i].renew(ctx), workloads[i].serve(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	var renewals, calls atomic.Int64
	for i, w := range workloads {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := w.renew(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("renew: %v", err)
				}
				renewals.Add(1)
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				if err := w.call(workloads[(i+1)%len(workloads)]); err != nil && ctx.Err() == nil {
					t.Errorf("call: %v", err)
				}
				calls.Add(1)
			}
		})
	}
	trusted := func(list ...*x509.Certificate) func() error {
		return func() error {
			for _, w := range workloads {
				if !w.trusts(list...) {
					return errors.New("a workload has other roots")
				}
			}
			return nil
		}
	}
	signedBy := func(p *pki.Pair) func() error {
		return func() error {
			for _, w := range workloads {
				w.mu.Lock()
				leaf, err := x509.ParseCertificate(w.own.Certificate[0])
				w.mu.Unlock()
				if err != nil {
					return err
				}
				if err := leaf.CheckSignatureFrom(p.Certificate); err != nil {
					return err
				}
			}
			return nil
		}
	}
	put(a2, a)
	l.eventually("another intermediate signs", signedBy(a2))
	put(a2, a, b)
	l.eventually("all trust A and B", trusted(a.Certificate, b.Certificate))
	put(b1, a, b)
	l.eventually("B signs", signedBy(b1))
	put(b1, b)
	l.eventually("all trust B", trusted(b.Certificate))
	before := calls.Load()
	l.eventually("calls continue", func() error {
		if calls.Load() < before+100 {
			return errors.New("not yet")
		}
		return nil
	})
	t.Logf("%d renewals and %d calls, none of which may fail", renewals.Load(), calls.Load())
}
