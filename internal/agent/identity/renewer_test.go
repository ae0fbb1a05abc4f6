package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// waitTimeout bounds every wait.
const patience = 20 * time.Second

// fakeClock advances only by next: Run waits on it, and a test moves it to the end of that wait.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	waits chan wait
}

type wait struct {
	until time.Time
	fire  chan time.Time
}

func newClock() *fakeClock { return &fakeClock{now: time.Now(), waits: make(chan wait, 1)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	w := wait{until: c.Now().Add(d), fire: make(chan time.Time, 1)}
	select {
	case <-c.waits: // the previous wait of Run is obsolete
	default:
	}
	c.waits <- w
	return w.fire
}

// next moves the clock to the end of Run's current wait, and returns its duration.
func (c *fakeClock) next(t *testing.T) time.Duration {
	t.Helper()
	select {
	case w := <-c.waits:
		c.mu.Lock()
		d := w.until.Sub(c.now)
		c.now = w.until
		c.mu.Unlock()
		w.fire <- w.until
		return d
	case <-time.After(patience):
		t.Fatal("Run does not wait on the clock")
		return 0
	}
}

// world is a Renewer with an authority whose responses the test provides.
type world struct {
	*Renewer
	clock *fakeClock
	store *secret.Store
	root  *pki.Pair

	mu    sync.Mutex
	sign  func(key crypto.PublicKey) ([]string, error)
	asked int
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{clock: newClock(), store: secret.NewStore(), root: pki.Authority("root")}
	w.sign = w.day
	o := Options{
		ID: SPIFFEID("cluster.local", "ns", "sa"), Lifetime: 24 * time.Hour, GraceRatio: 0.5, GraceJitter: 0.01,
		Store: w.store, Clock: w.clock, Random: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler),
		Sign: func(_ context.Context, request []byte, _ time.Duration) ([]string, error) {
			block, _ := pem.Decode(request)
			csr, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.sign(csr.PublicKey)
		},
	}
	for _, c := range change {
		c(&o)
	}
	w.Renewer = NewRenewer(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// day signs for a day of the world's clock.
func (w *world) day(key crypto.PublicKey) ([]string, error) {
	leaf := w.root.Sign(key, &x509.Certificate{NotAfter: w.clock.Now().Add(24 * time.Hour)})
	return []string{string(leaf), string(w.root.CertificatePEM())}, nil
}

func (w *world) answer(f func(key crypto.PublicKey) ([]string, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sign = f
}

// await waits until the secret has another version than before.
func (w *world) await(t *testing.T, name string, before uint64) secret.Versioned {
	t.Helper()
	limit := time.After(patience)
	for {
		changed := w.store.Changed()
		if v, ok := w.store.Get(name); ok && v.Version > before {
			return v
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no other %s", name)
		}
	}
}

func about(got, want time.Duration) bool { return got > want-time.Minute && got < want+time.Minute }

// TestRenewal tests that a certificate is renewed with a new key when half of its lifetime has
// passed.
func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.clock.next(t)
	first := w.await(t, secret.WorkloadName, 0)
	if d := w.clock.next(t); !about(d, 12*time.Hour) {
		t.Errorf("renewed after %v", d)
	}
	second := w.await(t, secret.WorkloadName, first.Version)
	if string(first.Key) == string(second.Key) {
		t.Error("the key is the same")
	}
	roots, ok := w.store.Get(secret.RootsName)
	if !ok || string(roots.Roots) != string(w.root.CertificatePEM()) {
		t.Errorf("roots %s", roots.Roots)
	}
}

// TestOutage tests that an authority's outage of eleven hours has no effect with a lifetime of a
// day, and that the backoff grows but stays bounded.
func TestOutage(t *testing.T) {
	scorecard.Check(t, 5, scorecard.Size("hours of outage on a simulated clock", 11))
	scorecard.Check(t, 27, scorecard.Size("simulated days", 1))
	w := newWorld(t)
	w.clock.next(t)
	first := w.await(t, secret.WorkloadName, 0)
	w.answer(func(crypto.PublicKey) ([]string, error) { return nil, errors.New("away") })
	w.clock.next(t)
	var away, last time.Duration
	attempts := 0
	for away < 11*time.Hour {
		last = w.clock.next(t)
		away += last
		attempts++
		if last < 200*time.Millisecond || last > 36*time.Second {
			t.Fatalf("asked again after %v", last)
		}
	}
	if v, _ := w.store.Get(secret.WorkloadName); v.Version != first.Version || v.Expires.Before(w.clock.Now()) {
		t.Error("the first certificate was removed, or has expired")
	}
	if last < 29*time.Second || attempts > 1500 {
		t.Errorf("asked %d times, at last every %v", attempts, last)
	}
	w.answer(w.day)
	w.clock.next(t)
	w.await(t, secret.WorkloadName, first.Version)
	if d := w.clock.next(t); !about(d, 12*time.Hour) {
		t.Errorf("renewed after %v", d)
	}
}

// TestBadAnswers tests that invalid responses of the authority do not replace the current
// certificate.
func TestBadAnswers(t *testing.T) {
	other := pki.NewKey()
	for name, answer := range map[string]func(w *world, key crypto.PublicKey) []string{
		"nothing":           func(*world, crypto.PublicKey) []string { return nil },
		"no root":           func(w *world, key crypto.PublicKey) []string { c, _ := w.day(key); return c[:1] },
		"another key":       func(w *world, _ crypto.PublicKey) []string { c, _ := w.day(other.Public()); return c },
		"no PEM":            func(w *world, key crypto.PublicKey) []string { c, _ := w.day(key); return []string{"x", c[1]} },
		"a root that is no": func(w *world, key crypto.PublicKey) []string { c, _ := w.day(key); return []string{c[0], "x"} },
		"expired": func(w *world, key crypto.PublicKey) []string {
			leaf := w.root.Sign(key, &x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)})
			return []string{string(leaf), string(w.root.CertificatePEM())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.clock.next(t)
			first := w.await(t, secret.WorkloadName, 0)
			w.answer(func(key crypto.PublicKey) ([]string, error) { return answer(w, key), nil })
			w.clock.next(t)
			if d := w.clock.next(t); d > time.Second { // the retry is soon
				t.Errorf("asked again after %v", d)
			}
			if v, _ := w.store.Get(secret.WorkloadName); v.Version != first.Version {
				t.Error("there is another certificate")
			}
		})
	}
}

// TestTrust tests that roots are added and removed without a new certificate, and that an invalid
// bundle is ignored.
func TestTrust(t *testing.T) {
	w := newWorld(t)
	added := pki.Authority("added")
	w.SetTrustBundle(added.CertificatePEM()) // before there is a certificate
	w.clock.next(t)
	certificate := w.await(t, secret.WorkloadName, 0)
	roots := w.await(t, secret.RootsName, 0)
	both := string(w.root.CertificatePEM()) + string(added.CertificatePEM())
	if string(roots.Roots) != both {
		t.Errorf("roots\n%s", roots.Roots)
	}
	w.SetTrustBundle(append(w.root.CertificatePEM(), w.root.CertificatePEM()...))
	roots = w.await(t, secret.RootsName, roots.Version)
	if string(roots.Roots) != string(w.root.CertificatePEM()) {
		t.Errorf("roots\n%s", roots.Roots)
	}
	w.SetTrustBundle(added.CertificatePEM())
	roots = w.await(t, secret.RootsName, roots.Version)
	w.SetTrustBundle([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	if roots = w.await(t, secret.RootsName, roots.Version); string(roots.Roots) != string(w.root.CertificatePEM()) {
		t.Errorf("roots\n%s", roots.Roots)
	}
	if v, _ := w.store.Get(secret.WorkloadName); v.Version != certificate.Version || w.asked != 1 {
		t.Errorf("asked %d times for a certificate", w.asked)
	}
}

// TestKeys tests the types and encodings of keys.
func TestKeys(t *testing.T) {
	for _, test := range []struct {
		keys KeyOptions
		kind string
		want x509.PublicKeyAlgorithm
		bits int
	}{
		{KeyOptions{}, "EC PRIVATE KEY", x509.ECDSA, 256},
		{KeyOptions{Curve: "P384"}, "EC PRIVATE KEY", x509.ECDSA, 384},
		{KeyOptions{PKCS8: true}, "PRIVATE KEY", x509.ECDSA, 256},
		{KeyOptions{RSABits: 2048}, "RSA PRIVATE KEY", x509.RSA, 2048},
		{KeyOptions{RSABits: 2048, PKCS8: true}, "PRIVATE KEY", x509.RSA, 2048},
	} {
		w := newWorld(t, func(o *Options) { o.Keys = test.keys })
		w.clock.next(t)
		v := w.await(t, secret.WorkloadName, 0)
		block, _ := pem.Decode(v.Key)
		list, err := secret.ParseCertificates(v.Chain)
		if err != nil {
			t.Fatal(err)
		}
		bits := 0
		switch key := list[0].PublicKey.(type) {
		case *rsa.PublicKey:
			bits = key.N.BitLen()
		case *ecdsa.PublicKey:
			bits = key.Curve.Params().BitSize
		}
		if block.Type != test.kind || list[0].PublicKeyAlgorithm != test.want || bits != test.bits {
			t.Errorf("%+v: %s, %v of %d bits", test.keys, block.Type, list[0].PublicKeyAlgorithm, bits)
		}
	}
}

func TestName(t *testing.T) {
	if got := SPIFFEID("td.example", "n", "s").String(); !strings.HasPrefix(got, "spiffe://td.example/ns/n/sa/s") {
		t.Error(got)
	}
}

// TestTrustDomainOfTheCertificate tests that the trust domain of the certificate may differ from
// the agent's configuration.
func TestTrustDomainOfTheCertificate(t *testing.T) {
	logged := make(chan string, 4)
	w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(lines(logged), nil)) })
	other := SPIFFEID("other.example", "ns", "sa")
	w.answer(func(key crypto.PublicKey) ([]string, error) {
		leaf := w.root.Sign(key, &x509.Certificate{NotAfter: w.clock.Now().Add(24 * time.Hour), URIs: []*url.URL{other}})
		return []string{string(leaf), string(w.root.CertificatePEM())}, nil
	})
	w.clock.next(t)
	select {
	case line := <-logged:
		if !strings.Contains(line, "name=spiffe://other.example/ns/ns/sa/sa ") {
			t.Error(line)
		}
	case <-time.After(patience):
		t.Error("nothing is logged")
	}
}

type lines chan<- string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestTrustByDomain tests that the roots per trust domain are passed on, and that the root of the
// certificate's chain is added to the workload's own trust domain unless a domain lists it.
func TestTrustByDomain(t *testing.T) {
	w := newWorld(t)
	partner := pki.Authority("partner")
	w.clock.next(t)
	roots := w.await(t, secret.RootsName, 0)
	own := w.o.ID.Host
	for name, test := range map[string]struct{ given, want []secret.TrustDomain }{
		"the own one is not said": {
			[]secret.TrustDomain{{Name: "partner.example", Roots: partner.CertificatePEM()}},
			[]secret.TrustDomain{{Name: own, Roots: w.root.CertificatePEM()}, {Name: "partner.example", Roots: partner.CertificatePEM()}},
		},
		"it is said": {
			[]secret.TrustDomain{{Name: "a.example", Roots: w.root.CertificatePEM()}, {Name: "partner.example", Roots: partner.CertificatePEM()}},
			[]secret.TrustDomain{{Name: "a.example", Roots: w.root.CertificatePEM()}, {Name: "partner.example", Roots: partner.CertificatePEM()}},
		},
		"others of the own domain": {
			[]secret.TrustDomain{{Name: own, Roots: partner.CertificatePEM()}},
			[]secret.TrustDomain{{Name: own, Roots: append(partner.CertificatePEM(), w.root.CertificatePEM()...)}},
		},
	} {
		slices.SortFunc(test.given, func(a, b secret.TrustDomain) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(test.want, func(a, b secret.TrustDomain) int { return strings.Compare(a.Name, b.Name) })
		w.SetTrustBundle(partner.CertificatePEM(), test.given...)
		roots = w.await(t, secret.RootsName, roots.Version)
		if diff := cmp.Diff(test.want, roots.TrustDomains); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	w.SetTrustBundle(partner.CertificatePEM())
	if roots = w.await(t, secret.RootsName, roots.Version); roots.TrustDomains != nil {
		t.Errorf("for all: %v", roots.TrustDomains)
	}
}
