package ca

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// source provides certificates that the test sets.
type source struct {
	mu    sync.Mutex
	made  int
	life  time.Duration
	fails error
	news  chan struct{}
}

func (s *source) LoadCertificate(context.Context) (*tls.Certificate, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, nil, s.fails
	}
	s.made++
	p := pki.SelfSigned(&x509.Certificate{NotBefore: time.Now(), NotAfter: time.Now().Add(s.life)})
	c := p.TLS()
	c.Leaf = p.Certificate
	return &c, []byte{byte(s.made)}, nil
}

func (s *source) SourceChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

func (s *source) set(fails error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
	return s.made
}

// TestServingRenewsAtHalfLife: the serving certificate is renewed at half of its lifetime. The last
// one is kept while renewal fails, and a change of the source is reloaded.
func TestServingRenewsAtHalfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &source{life: 24 * time.Hour, news: make(chan struct{})}
		s := NewServingCertificate(from, nil)
		if _, err := s.GetCertificate(nil); err == nil {
			t.Error("there is a certificate before there is one")
		}
		if e := s.Expiry(); !e.IsZero() {
			t.Errorf("without a certificate it expires at %v", e)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		synctest.Wait()
		made := func(want int, after string) {
			t.Helper()
			synctest.Wait()
			if n := from.set(from.fails); n != want {
				t.Errorf("%s: %d certificates, want %d", after, n, want)
			}
		}
		made(1, "the start")
		if left := time.Until(s.Expiry()); left != 24*time.Hour {
			t.Errorf("the first certificate expires in %v, want 24 hours", left)
		}
		_, changed := s.CABundle()
		time.Sleep(12*time.Hour - time.Second)
		made(1, "almost half of its life")
		time.Sleep(2 * time.Second)
		made(2, "half of its life")
		<-changed
		last, err := s.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		from.set(errors.New("no"))
		time.Sleep(13 * time.Hour)
		made(2, "failures")
		if c, err := s.GetCertificate(nil); err != nil || c != last {
			t.Errorf("the last good one is not served: %v", err)
		}
		from.set(nil)
		time.Sleep(renewalRetry)
		made(3, "the end of failures")
		from.mu.Lock()
		close(from.news)
		from.news = nil
		from.mu.Unlock()
		made(4, "news")
	})
}

// TestServingFollowsTheAuthority: the serving certificate is signed by the authority that clients
// trust.
func TestServingFollowsTheAuthority(t *testing.T) {
	a := authority(t, selfSigned(t), AuthorityOptions{})
	s := NewServingCertificate(
		AuthoritySource{
			Authority: a,
			Names:     []string{"istiod.istio-system.svc"},
			Addresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		},
		nil,
	)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer cancel()
	taken := func(roots []*x509.Certificate, name string) bool {
		c, err := s.GetCertificate(nil)
		if err != nil {
			return false
		}
		pool, between := x509.NewCertPool(), x509.NewCertPool()
		for _, r := range roots {
			pool.AddCert(r)
		}
		for _, der := range c.Certificate[1:] {
			x, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			between.AddCert(x)
		}
		_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, DNSName: name})
		return err == nil
	}
	roots, _ := a.Roots()
	serving.Until(
		t,
		limit,
		"the first",
		func() bool { return taken(roots, "istiod.istio-system.svc") && taken(roots, "127.0.0.1") },
	)
	if taken(roots, "evil.example.com") {
		t.Error("it is for any name")
	}
	root := pki.Authority("operator's")
	under := intermediate(root, &x509.Certificate{})
	if _, err := a.ReplaceMaterial(filesOfPairs(t, under, nil, root)); err != nil {
		t.Fatal(err)
	}
	serving.Until(t, limit, "the second", func() bool {
		bundle, _ := s.CABundle()
		return taken([]*x509.Certificate{root.Certificate}, "istiod.istio-system.svc") &&
			string(bundle) == string(root.CertificatePEM())
	})
}

func TestServingFromFiles(t *testing.T) {
	dir := t.TempDir()
	f := FileSource{Certificate: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), PollInterval: poll}
	s := NewServingCertificate(f, nil)
	if err := s.Renew(t.Context()); err == nil {
		t.Error("files that are not there are read")
	}
	put := func() *x509.Certificate {
		p := pki.SelfSigned(&x509.Certificate{DNSNames: []string{"a"}})
		if err := p.WriteFiles(f.Certificate, f.Key); err != nil {
			t.Fatal(err)
		}
		return p.Certificate
	}
	first := put()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer cancel()
	serves := func(want *x509.Certificate) func() bool {
		return func() bool {
			c, err := s.GetCertificate(nil)
			return err == nil && c.Leaf.Equal(want)
		}
	}
	serving.Until(t, limit, "the first", serves(first))
	serving.Until(t, limit, "the second", serves(put()))
}
