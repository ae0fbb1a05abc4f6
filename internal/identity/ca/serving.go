package ca

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

// ServingCertificate provides the TLS certificate of the control plane's servers and the roots that
// verify it. It is safe for concurrent use.
type ServingCertificate struct {
	source CertificateSource
	log    *slog.Logger
	now    func() time.Time

	mu            sync.Mutex
	current       *tls.Certificate // nil before the first renewal
	bundle        []byte
	changed       notify.Broadcast
	sourceChanged <-chan struct{} // closed by the source
}

// CertificateSource loads or issues the certificate of a ServingCertificate.
type CertificateSource interface {
	// LoadCertificate returns a certificate, with its Leaf set, and the roots that verify it in
	// PEM.
	LoadCertificate(ctx context.Context) (*tls.Certificate, []byte, error)
	// SourceChanged returns a channel that is closed when LoadCertificate may return another
	// certificate before half of the current one's lifetime has passed.
	SourceChanged() <-chan struct{}
}

// NewServingCertificate returns a ServingCertificate without a certificate.
// [ServingCertificate.Renew] loads the first one, [ServingCertificate.Run] all others. If log is
// nil, nothing is logged.
func NewServingCertificate(source CertificateSource, log *slog.Logger) *ServingCertificate {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &ServingCertificate{source: source, log: log, now: time.Now}
}

// renewalRetry is the backoff after a failed renewal, and the minimum time between renewals.
const renewalRetry = 10 * time.Second

// Run renews the certificate at half of its lifetime and when its source changes, until ctx ends.
// Without a certificate it loads one at once. Failures are logged and retried after renewalRetry,
// or earlier if the source changes; the last certificate stays in use.
func (s *ServingCertificate) Run(ctx context.Context) {
	failed := false
	for {
		wait, changed := s.nextRenewal()
		if failed {
			wait = renewalRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		err := s.Renew(ctx)
		if failed = err != nil; failed {
			s.log.Error("renewing the control plane's certificate failed, retrying", "err", err)
		}
	}
}

// nextRenewal returns the time until half of the certificate's lifetime has passed, at least
// renewalRetry, or 0 without a certificate. It also returns the source's channel of changes.
func (s *ServingCertificate) nextRenewal() (time.Duration, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0, s.sourceChanged
	}
	leaf := s.current.Leaf
	middle := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	return max(middle.Sub(s.now()), renewalRetry), s.sourceChanged
}

// Renew loads a certificate from the source and, if it or the roots differ, replaces the current
// one and logs that. It signals CABundle's channel only if the roots changed. If the source fails,
// it returns the error and the current certificate stays in use.
func (s *ServingCertificate) Renew(ctx context.Context) error {
	// before LoadCertificate, so that no change during it is missed
	changed := s.source.SourceChanged()
	next, bundle, err := s.source.LoadCertificate(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sourceChanged = changed
	if err != nil {
		return err
	}
	if s.current != nil && next.Leaf.Equal(s.current.Leaf) && string(bundle) == string(s.bundle) {
		return nil
	}
	s.log.Info(
		"control plane uses new serving certificate",
		"names", next.Leaf.DNSNames,
		"serial", next.Leaf.SerialNumber.Text(16),
		"expires", next.Leaf.NotAfter,
	)
	rootsChanged := string(bundle) != string(s.bundle)
	s.current, s.bundle = next, bundle
	if rootsChanged {
		s.changed.Notify()
	}
	return nil
}

// GetCertificate returns the current certificate, for tls.Config.GetCertificate. It returns an
// error before the first renewal.
func (s *ServingCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, errors.New("the control plane has no certificate yet")
	}
	return s.current, nil
}

// Expiry returns when the current certificate expires. It returns the zero time before the first
// renewal.
func (s *ServingCertificate) Expiry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return time.Time{}
	}
	return s.current.Leaf.NotAfter
}

// CABundle returns the roots that verify the certificate, in PEM, and a channel that is closed when
// they change. The roots are empty before the first renewal.
func (s *ServingCertificate) CABundle() ([]byte, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bundle, s.changed.Changed()
}

// AuthoritySource is a CertificateSource that has an Authority sign the certificate.
type AuthoritySource struct {
	Authority *Authority
	// Names and Addresses are the DNS names and IP addresses in the certificate.
	Names     []string
	Addresses []net.IP
	KeyType   KeyType
	// Lifetime is the lifetime of the certificate (default 24 hours).
	Lifetime time.Duration
	Random   io.Reader
}

// LoadCertificate generates a key and has the Authority sign a certificate for it, for Lifetime or
// 24 hours. It returns the certificate with the roots in PEM, or an error if the Authority cannot
// sign.
func (s AuthoritySource) LoadCertificate(context.Context) (*tls.Certificate, []byte, error) {
	random, lifetime := s.Random, s.Lifetime
	if random == nil {
		random = rand.Reader
	}
	if lifetime == 0 {
		lifetime = 24 * time.Hour
	}
	key, err := s.KeyType.GenerateKey(random)
	if err != nil {
		return nil, nil, err
	}
	issued, err := s.Authority.IssueServer(key.Public(), s.Names, s.Addresses, lifetime)
	if err != nil {
		return nil, nil, err
	}
	c := &tls.Certificate{PrivateKey: key, Leaf: issued.Chain[0]}
	for _, x := range issued.Chain {
		c.Certificate = append(c.Certificate, x.Raw)
	}
	return c, EncodeCertificates(issued.Roots...), nil
}

// SourceChanged returns the channel that is closed when the authority's material changes.
func (s AuthoritySource) SourceChanged() <-chan struct{} {
	_, changed := s.Authority.Material()
	return changed
}

// FileSource is a CertificateSource that reads PEM files.
type FileSource struct {
	// Certificate, with its chain, Key and Roots are paths. Roots may be empty.
	Certificate, Key, Roots string
	// PollInterval is the time between reads (default 2 s).
	PollInterval time.Duration
}

// LoadCertificate reads the certificate, its key and the roots in PEM; without Roots it returns no
// roots. It returns an error if a file is missing or the key does not match the certificate. The
// leaf is parsed; the roots are returned unchecked.
func (f FileSource) LoadCertificate(context.Context) (*tls.Certificate, []byte, error) {
	var texts [3][]byte
	for i, name := range []string{f.Certificate, f.Key, f.Roots} {
		if name == "" {
			continue
		}
		var err error
		if texts[i], err = os.ReadFile(name); err != nil {
			return nil, nil, fmt.Errorf("read the control plane's certificate: %w", err)
		}
	}
	c, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %q with key %q: %w", f.Certificate, f.Key, err)
	}
	if c.Leaf == nil {
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return nil, nil, fmt.Errorf("certificate %q: %w", f.Certificate, err)
		}
	}
	return &c, texts[2], nil
}

// SourceChanged returns a channel that is closed after PollInterval (default 2 s), when the files
// should be read again. Each call starts a timer of its own.
func (f FileSource) SourceChanged() <-chan struct{} {
	poll := f.PollInterval
	if poll == 0 {
		poll = pollInterval
	}
	c := make(chan struct{})
	time.AfterFunc(poll, func() { close(c) })
	return c
}
