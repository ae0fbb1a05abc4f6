package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// Call is one request.
type Call struct {
	Request  *x509.CertificateRequest
	Lifetime time.Duration
	Metadata metadata.MD
	// Peer is the certificate that the client showed, nil for none.
	Peer *x509.Certificate
}

// Authority signs certificates. Its fields may be changed by Set only.
type Authority struct {
	securityv1.UnimplementedIstioCertificateServiceServer

	mu     sync.Mutex
	answer Answer
	calls  []Call
	more   notify.Broadcast // notified by the next call
}

// Answer configures the answers to requests.
type Answer struct {
	// Root signs the certificates.
	Root *pki.Pair
	// Lifetime overrides the requested lifetime of certificates; 0: the requested one.
	Lifetime time.Duration
	// Error, if set, is returned for every request.
	Error error
	// Refuse refuses a call if it returns an error.
	Refuse func(Call) error
	// Chain replaces the returned chain, if it is not nil.
	Chain func(leaf, root string) []string
}

// New returns an authority that does not listen yet.
func New(answer Answer) *Authority { return &Authority{answer: answer} }

// Start makes one and serves it on the listener with that certificate until the test ends; without
// a certificate in plaintext.
func Start(t testing.TB, l net.Listener, server *tls.Certificate, answer Answer) *Authority {
	t.Helper()
	a := New(answer)
	a.Serve(t, l, server)
	return a
}

// Serve serves it on one more listener until the test ends.
func (a *Authority) Serve(t testing.TB, l net.Listener, server *tls.Certificate, more ...func(*grpc.Server)) {
	t.Helper()
	var options []grpc.ServerOption
	if server != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{*server}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12,
		})))
	}
	s := grpc.NewServer(options...)
	securityv1.RegisterIstioCertificateServiceServer(s, a)
	for _, register := range more {
		register(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// SetAnswer changes how requests are answered.
func (a *Authority) SetAnswer(answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// AwaitRequests waits until there have been so many requests, and returns them all.
func (a *Authority) AwaitRequests(t testing.TB, n int) []Call {
	t.Helper()
	const patience = 20 * time.Second
	limit := time.After(patience)
	for {
		a.mu.Lock()
		calls, more := append([]Call(nil), a.calls...), a.more.Changed()
		a.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("%d requests for certificates after %v, want %d", len(calls), patience, n)
		}
	}
}

// CreateCertificate signs a request.
func (a *Authority) CreateCertificate(
	ctx context.Context,
	in *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	block, _ := pem.Decode([]byte(in.GetCsr()))
	if block == nil {
		return nil, status.Error(codes.InvalidArgument, "no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	call := Call{Request: request, Lifetime: time.Duration(in.GetValidityDuration()) * time.Second, Peer: peerOf(ctx)}
	call.Metadata, _ = metadata.FromIncomingContext(ctx)
	answer := a.recordCall(call)
	if answer.Error != nil {
		return nil, answer.Error
	}
	if answer.Refuse != nil {
		if err := answer.Refuse(call); err != nil {
			return nil, err
		}
	}
	lifetime := answer.Lifetime
	if lifetime == 0 {
		lifetime = call.Lifetime
	}
	leaf := answer.Root.Sign(
		request.PublicKey,
		&x509.Certificate{URIs: request.URIs, NotAfter: time.Now().Add(lifetime)},
	)
	chain := []string{string(leaf), string(answer.Root.CertificatePEM())}
	if answer.Chain != nil {
		chain = answer.Chain(chain[0], chain[1])
	}
	return &securityv1.IstioCertificateResponse{CertChain: chain}, nil
}

func (a *Authority) recordCall(c Call) Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, c)
	a.more.Notify()
	return a.answer
}

func peerOf(ctx context.Context) *x509.Certificate {
	p, ok := peerTLS(ctx)
	if !ok || len(p.State.PeerCertificates) == 0 {
		return nil
	}
	return p.State.PeerCertificates[0]
}
