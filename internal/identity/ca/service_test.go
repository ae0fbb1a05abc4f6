package ca

import (
	"context"
	"crypto/x509"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// believing authenticates every caller as the identity in the context, or returns an error.
type believing struct{}

type whoKey struct{}

func (believing) String() string { return "test" }

func (believing) Authenticate(ctx context.Context, _ authenticate.Request) (authenticate.Caller, error) {
	switch who := ctx.Value(whoKey{}).(type) {
	case error:
		return authenticate.Caller{}, who
	case spiffe.ID:
		return authenticate.Caller{ID: who}, nil
	}
	return authenticate.Caller{}, authenticate.ErrNoCredentials
}

func as(t testing.TB, id string) context.Context {
	return context.WithValue(t.Context(), whoKey{}, parseID(t, id))
}

// allowing lets callers be one account.
type allowing spiffe.Account

func (a allowing) Authorize(_ context.Context, _ authenticate.Caller, account spiffe.Account) error {
	if account == spiffe.Account(a) {
		return nil
	}
	return errors.New("not on its node")
}

// tally counts the calls of Metrics.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (x *tally) count(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[string]int{}
	}
	x.of[what]++
}

func (x *tally) RequestReceived()           { x.count("requested") }
func (x *tally) AuthenticationFailed()      { x.count("unauthenticated") }
func (x *tally) CertificateIssued()         { x.count("issued") }
func (x *tally) RequestRefused(cause Cause) { x.count(string(cause)) }

func TestService(t *testing.T) {
	root := pki.Authority("root")
	other := pki.Authority("other")
	between := intermediate(root, &x509.Certificate{})
	a := authority(t, filesOfPairs(t, between, nil, root, other), AuthorityOptions{})
	counts := new(tally)
	s := NewService(ServiceOptions{
		Authenticators: authenticate.Chain{
			believing{},
		},
		Issuer:        a,
		TrustDomain:   func() string { return "cluster.local" },
		Metrics:       counts,
		Impersonation: allowing{"cluster.local", "a", "here"},
	})
	csr := string(request(t, &x509.CertificateRequest{DNSNames: []string{"evil"}}, nil))
	metadata := func(name, value string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewStringValue(value)}}
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		ask  *security.IstioCertificateRequest
		want string // an ID
		code codes.Code
	}{
		"own":                       {as(t, "spiffe://cluster.local/ns/a/sa/b"), &security.IstioCertificateRequest{Csr: csr}, "spiffe://cluster.local/ns/a/sa/b", codes.OK},
		"of a former trust domain":  {as(t, "spiffe://old.local/ns/a/sa/b"), &security.IstioCertificateRequest{Csr: csr}, "spiffe://cluster.local/ns/a/sa/b", codes.OK},
		"for another":               {as(t, "spiffe://cluster.local/ns/a/sa/node"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("ImpersonatedIdentity", "spiffe://cluster.local/ns/a/sa/here")}, "spiffe://cluster.local/ns/a/sa/here", codes.OK},
		"for one elsewhere":         {as(t, "spiffe://cluster.local/ns/a/sa/node"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("ImpersonatedIdentity", "spiffe://cluster.local/ns/a/sa/there")}, "", codes.Unauthenticated},
		"for one of another domain": {as(t, "spiffe://cluster.local/ns/a/sa/node"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("ImpersonatedIdentity", "spiffe://foreign/ns/a/sa/here")}, "", codes.Unauthenticated},
		"for an invalid ID":         {as(t, "spiffe://cluster.local/ns/a/sa/node"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("ImpersonatedIdentity", "here")}, "", codes.Unauthenticated},
		"by an unrelated field":     {as(t, "spiffe://cluster.local/ns/a/sa/b"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("Identity", "spiffe://cluster.local/ns/a/sa/c")}, "spiffe://cluster.local/ns/a/sa/b", codes.OK},
		"by another signer":         {as(t, "spiffe://cluster.local/ns/a/sa/b"), &security.IstioCertificateRequest{Csr: csr, Metadata: metadata("CertSigner", "x")}, "", codes.InvalidArgument},
		"of no account":             {as(t, "spiffe://cluster.local/x"), &security.IstioCertificateRequest{Csr: csr}, "", codes.PermissionDenied},
		"of nobody":                 {t.Context(), &security.IstioCertificateRequest{Csr: csr}, "", codes.Unauthenticated},
		"of who cannot be asked":    {context.WithValue(t.Context(), whoKey{}, authenticate.ErrUnavailable), &security.IstioCertificateRequest{Csr: csr}, "", codes.Unavailable},
		"nothing":                   {as(t, "spiffe://cluster.local/ns/a/sa/b"), nil, "", codes.InvalidArgument},
	} {
		r, err := s.CreateCertificate(tt.ctx, tt.ask)
		if status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %v", name, err, tt.code)
		}
		if err != nil {
			continue
		}
		if len(r.CertChain) != 3 {
			t.Fatalf("%s: %d texts, want the certificate, what signed it, and the roots", name, len(r.CertChain))
		}
		var i Issued
		for _, text := range r.CertChain[:2] {
			list, err := ParseCertificates([]byte(text))
			if err != nil || len(list) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			i.Chain = append(i.Chain, list[0])
		}
		if i.Roots, err = ParseCertificates([]byte(r.CertChain[2])); err != nil || len(i.Roots) != 2 {
			t.Fatalf("%s: %d roots, %v", name, len(i.Roots), err)
		}
		lint(t, i, parseID(t, tt.want), time.Now())
	}
	if counts.of["requested"] != 12 || counts.of["issued"] != 4 || counts.of["unauthenticated"] != 5 ||
		counts.of["ID_ERROR"] != 1 ||
		counts.of["CSR_ERROR"] != 2 {
		t.Errorf("metrics = %v", counts.of)
	}
}

// TestRateLimitPerIdentity: an identity over its rate limit does not affect others.
func TestRateLimitPerIdentity(t *testing.T) {
	now := time.Now()
	s := NewService(ServiceOptions{
		Authenticators: authenticate.Chain{
			believing{},
		},
		Issuer:      authority(t, selfSigned(t), AuthorityOptions{}),
		TrustDomain: func() string { return "cluster.local" },
		Rate:        10,
		Burst:       5,
		Now:         func() time.Time { return now },
	})
	csr := string(request(t, &x509.CertificateRequest{}, nil))
	good := func(id string, n int) (issued int) {
		for range n {
			_, err := s.CreateCertificate(as(t, id), &security.IstioCertificateRequest{Csr: csr})
			switch status.Code(err) {
			case codes.OK:
				issued++
			case codes.ResourceExhausted:
			default:
				t.Fatal(err)
			}
		}
		return issued
	}
	if n := good("spiffe://cluster.local/ns/a/sa/greedy", 50); n != 5 {
		t.Errorf("%d of 50 at once, want 5", n)
	}
	if n := good("spiffe://cluster.local/ns/a/sa/other", 5); n != 5 {
		t.Errorf("another has %d of 5", n)
	}
	now = now.Add(time.Second)
	if n := good("spiffe://cluster.local/ns/a/sa/greedy", 50); n != 5 {
		t.Errorf("%d of 50 a second later, want 5", n)
	}
}

// TestIdentityLimiterIsBounded: new identities cannot exhaust the memory.
func TestIdentityLimiterIsBounded(t *testing.T) {
	now := time.Now()
	x := newIdentityLimiter(1, 2, func() time.Time { return now })
	for i := range maxTrackedIdentities + 100 {
		id, err := spiffe.Account{TrustDomain: "td", Namespace: "a", Name: strconv.Itoa(i)}.ID()
		if err != nil {
			t.Fatal(err)
		}
		x.Allow(id)
		now = now.Add(time.Millisecond)
	}
	if len(x.limiters) > maxTrackedIdentities {
		t.Errorf("%d identities are remembered", len(x.limiters))
	}
}
