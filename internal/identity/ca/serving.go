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
)

// Serving is the certificate that ports of the control plane are served with, and the roots by which clients check it. It is for
// use by many goroutines.
type Serving struct {
	source ServingSource
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	current *tls.Certificate // nil: none yet
	bundle  []byte
	changed chan struct{}
	news    <-chan struct{} // of the source, since the last renewal
}

// ServingSource is where a Serving has its certificate from.
type ServingSource interface {
	// Make makes, or reads, a certificate, and gives the roots by which clients check it, in PEM. Its Leaf is set.
	Make(ctx context.Context) (*tls.Certificate, []byte, error)
	// News gives a channel that is closed, or sends, when there may be another one to be had before half of the life of the last.
	News() <-chan struct{}
}

// NewServing makes a Serving without a certificate: [Serving.Renew] gets the first, [Serving.Run] all others.
func NewServing(source ServingSource, log *slog.Logger) *Serving {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Serving{source: source, log: log, now: time.Now, changed: make(chan struct{})}
}

// servingRetry is how long a Serving waits that could not get its certificate.
const servingRetry = 10 * time.Second

// Run has a certificate ready, and another one at half of its life or when its source has news, until the context ends. What
// goes wrong is logged and tried again; the last good one is served with meanwhile.
func (s *Serving) Run(ctx context.Context) {
	failed := false
	for {
		wait, news := s.rest()
		if failed {
			wait = servingRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-news:
		case <-timer.C:
		}
		timer.Stop()
		err := s.Renew(ctx)
		if failed = err != nil; failed {
			s.log.Error("the control plane's own certificate could not be renewed", "err", err)
		}
	}
}

// rest is how long it is to the middle of the certificate's life, and some time in any case but without one; and what tells of
// another one before.
func (s *Serving) rest() (time.Duration, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0, s.news
	}
	leaf := s.current.Leaf
	middle := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	return max(middle.Sub(s.now()), servingRetry), s.news
}

// Renew gets a certificate now.
func (s *Serving) Renew(ctx context.Context) error {
	news := s.source.News() // before Make, so that nothing that comes during it is missed
	next, bundle, err := s.source.Make(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = news
	if err != nil {
		return err
	}
	if s.current != nil && next.Leaf.Equal(s.current.Leaf) && string(bundle) == string(s.bundle) {
		return nil
	}
	s.log.Info("the control plane has a certificate", "names", next.Leaf.DNSNames, "serial", next.Leaf.SerialNumber.Text(16), "until", next.Leaf.NotAfter)
	moved := string(bundle) != string(s.bundle)
	s.current, s.bundle = next, bundle
	if moved {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return nil
}

// GetCertificate is what tls.Config asks in each handshake.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, errors.New("the control plane has no certificate yet")
	}
	return s.current, nil
}

// CABundle gives the roots by which clients check the certificate, in PEM, and a channel that is closed when there are others.
// It is empty until there is a certificate.
func (s *Serving) CABundle() ([]byte, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bundle, s.changed
}

// AuthoritySource has an Authority sign the certificate of the control plane.
type AuthoritySource struct {
	Authority *Authority
	// Names are the DNS names that the control plane is called by, Addresses such that it is called at without a name.
	Names     []string
	Addresses []net.IP
	KeyType   KeyType
	// Lifetime of the certificate; 0: 24 hours.
	Lifetime time.Duration
	Random   io.Reader
}

// Make makes a key, and has a certificate signed for it.
func (s AuthoritySource) Make(context.Context) (*tls.Certificate, []byte, error) {
	random, lifetime := s.Random, s.Lifetime
	if random == nil {
		random = rand.Reader
	}
	if lifetime == 0 {
		lifetime = 24 * time.Hour
	}
	key, err := s.KeyType.New(random)
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

// News is closed when the authority signs with something else.
func (s AuthoritySource) News() <-chan struct{} {
	_, changed := s.Authority.Material()
	return changed
}

// FileSource reads the certificate of the control plane from files in PEM.
type FileSource struct {
	// Certificate, with its chain, Key and Roots are paths; Roots may be empty.
	Certificate, Key, Roots string
	// Poll is how often they are read again; 0: every two seconds.
	Poll time.Duration
}

// Make reads the files.
func (f FileSource) Make(context.Context) (*tls.Certificate, []byte, error) {
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

// News sends when the files are to be read again.
func (f FileSource) News() <-chan struct{} {
	poll := f.Poll
	if poll == 0 {
		poll = pollInterval
	}
	c := make(chan struct{})
	time.AfterFunc(poll, func() { close(c) })
	return c
}
