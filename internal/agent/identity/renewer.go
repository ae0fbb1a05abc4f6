package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/retry"
)

// Bounds of the exponential backoff between failed attempts.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Options configure a Renewer.
type Options struct {
	// ID is the workload's SPIFFE ID.
	ID   *url.URL
	Keys KeyOptions
	// Lifetime is the requested lifetime. The authority may issue a shorter one.
	Lifetime time.Duration
	// GraceRatio is the fraction of the lifetime that remains at renewal, GraceJitter its random
	// variation.
	GraceRatio, GraceJitter float64
	// Sign sends a signing request and returns the chain, see Authority.Sign.
	Sign  func(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error)
	Store *secret.Store
	// OnUpdate is called with every new certificate or roots. It may be nil.
	OnUpdate func(chain, key, roots []byte)
	Clock    clock.Clock
	// Random returns a number in [0, 1), for jitter.
	Random func() float64
	// OnSigned is called with duration and result of each signing request. It may be nil.
	OnSigned func(took time.Duration, err error)
	Log      *slog.Logger
}

// Renewer keeps the workload's certificate in the store valid.
type Renewer struct {
	o Options

	mu      sync.Mutex
	bundle  []byte
	domains []secret.TrustDomain
	changed notify.Wake // wakes Run after SetTrustBundle
}

// NewRenewer returns a Renewer without a certificate. It sends no request before Run.
func NewRenewer(o Options) *Renewer { return &Renewer{o: o, changed: notify.NewWake()} }

// SetTrustBundle replaces the additional roots of the mesh, in PEM, and the roots per trust domain,
// which must be sorted by name. Without domains every root may sign for every trust domain. Nothing
// is validated here: Run logs an invalid bundle and ignores it. Run applies the change without a
// new certificate.
func (r *Renewer) SetTrustBundle(bundle []byte, domains ...secret.TrustDomain) {
	r.mu.Lock()
	r.bundle, r.domains = bundle, domains
	r.mu.Unlock()
	r.changed.Notify()
}

// trustBundle returns the bundle and the trust domains of the last SetTrustBundle.
func (r *Renewer) trustBundle() ([]byte, []secret.TrustDomain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bundle, r.domains
}

// certificate is the current certificate of one Run. It is zero until there is one.
type certificate struct {
	chain, key []byte
	expires    time.Time
	// id is the SPIFFE ID in the certificate.
	id string
	// issuer are the roots that came with the certificate.
	issuer []byte
}

// Run requests a certificate at once, and a new one each time GraceRatio of its lifetime remains,
// until ctx ends. Failed requests are logged and retried with backoff, and the last certificate
// stays in use. Each new certificate and each change of the trust bundle updates the store. It
// always returns nil.
func (r *Renewer) Run(ctx context.Context) error {
	var s certificate
	backoff := retry.NewBackoff(minBackoff, maxBackoff)
	due := r.o.Clock.After(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed.C():
			r.updateStore(s)
		case <-due:
			next, err := r.requestCertificate(ctx, s)
			if err != nil { // also if ctx has ended, which the next iteration handles
				wait := r.addJitter(backoff.NextBackOff())
				r.logFailure(ctx, s, err, wait)
				due = r.o.Clock.After(wait)
			} else {
				backoff.Reset()
				s = next
				r.updateStore(s)
				wait := r.renewalDelay(s.expires)
				r.o.Log.Info("workload certificate issued",
					"name", s.id, "expires", s.expires, "renewal_in", wait.Round(time.Second))
				due = r.o.Clock.After(wait)
			}
		}
	}
}

// logFailure logs a failed request with the time until the next one. It is an error if the current
// certificate has expired, and a warning if it is valid or there is none yet. It logs nothing if
// ctx has ended.
func (r *Renewer) logFailure(ctx context.Context, s certificate, err error, wait time.Duration) {
	switch {
	case ctx.Err() != nil:
	case s.chain == nil:
		r.o.Log.Warn("cannot obtain workload certificate, retrying", "error", err, "next_attempt_in", wait)
	case s.expires.Before(r.o.Clock.Now()):
		r.o.Log.Error("workload certificate has expired and cannot be renewed, retrying",
			"expired", s.expires, "error", err, "next_attempt_in", wait)
	default:
		r.o.Log.Warn("cannot renew workload certificate, still using the current one",
			"expires", s.expires, "error", err, "next_attempt_in", wait)
	}
}

// requestCertificate generates a key, obtains a certificate for it and validates that. If OnSigned
// is set, it is called after each request, with its duration and error. On failure s is returned
// with an error.
func (r *Renewer) requestCertificate(ctx context.Context, s certificate) (certificate, error) {
	key, err := r.o.Keys.newKey()
	if err != nil {
		return s, fmt.Errorf("generate private key: %w", err)
	}
	csr, err := newCSR(key, r.o.ID)
	if err != nil {
		return s, err
	}
	begin := r.o.Clock.Now()
	chain, err := r.o.Sign(ctx, csr, r.o.Lifetime)
	if r.o.OnSigned != nil {
		r.o.OnSigned(r.o.Clock.Now().Sub(begin), err)
	}
	if err != nil {
		return s, err
	}
	next, err := r.parseResponse(key, chain)
	if err != nil {
		return s, fmt.Errorf("invalid response of the certificate authority: %w", err)
	}
	return next, nil
}

// parseResponse checks the authority's chain, because Envoy would reject an invalid one and then
// have no certificate. The last element holds the roots, the others the leaf and intermediates. It
// fails with fewer than two elements, without a root, if any certificate cannot be parsed, or if
// the leaf has expired or does not match key; signatures are not verified. The result's chain also
// has the root that signed it, if the roots have one.
func (r *Renewer) parseResponse(key crypto.Signer, chain []string) (certificate, error) {
	if len(chain) < 2 {
		return certificate{}, fmt.Errorf("%d certificates, want at least a leaf and a root", len(chain))
	}
	encoded, err := r.o.Keys.encodePEM(key)
	if err != nil {
		return certificate{}, err
	}
	last := len(chain) - 1
	leaf := []byte(joinPEM(chain[:last]))
	pair, err := secret.ParseKeyPair(leaf, encoded)
	if err != nil {
		return certificate{}, err
	}
	if !pair.Expires.After(r.o.Clock.Now()) {
		return certificate{}, fmt.Errorf("certificate has expired at %v", pair.Expires)
	}
	issuer := []byte(joinPEM(chain[last:]))
	if _, err := secret.ParseRoots(issuer); err != nil {
		return certificate{}, fmt.Errorf("root: %w", err)
	}
	presented, err := appendRoot(leaf, issuer)
	if err != nil {
		return certificate{}, err
	}
	return certificate{chain: presented, key: encoded, expires: pair.Expires, id: spiffeIDOf(leaf), issuer: issuer}, nil
}

// spiffeIDOf returns the first URI of the first certificate in leaf (PEM), which is its SPIFFE ID.
// It returns "" if the certificate has no URI or is invalid. The authority decides the ID: the
// mesh's trust domain may differ from the agent's configuration.
func spiffeIDOf(leaf []byte) string {
	block, _ := pem.Decode(leaf)
	if block == nil {
		return ""
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(c.URIs) == 0 {
		return ""
	}
	return c.URIs[0].String()
}

// joinPEM concatenates PEM data. Each part ends with exactly one newline.
func joinPEM(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.TrimRight(p, "\n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// updateStore puts the roots of issuer and trust bundle, then the certificate, into the store. So a
// certificate of a new authority is never present before its root. It then calls OnUpdate, if set,
// with the same data. An invalid trust bundle is logged and left out, and nothing happens while s
// has no certificate.
func (r *Renewer) updateStore(s certificate) {
	if s.chain == nil {
		return
	}
	bundle, domains := r.trustBundle()
	roots, err := secret.JoinCertificates(s.issuer, bundle)
	if err == nil {
		domains, err = addIssuerRoots(domains, s.issuer, r.ownTrustDomain(s))
	}
	if err != nil {
		r.o.Log.Error("invalid trust bundle ignored, trusting only the root of the workload certificate", "error", err)
		roots, domains = s.issuer, nil
	}
	trust, err := secret.ParseRoots(roots)
	if err != nil {
		panic("identity: " + err.Error()) // cannot happen: parseResponse has validated them
	}
	trust.TrustDomains = domains
	r.o.Store.Set(secret.RootsName, trust)
	r.o.Store.Set(secret.WorkloadName, secret.Secret{Chain: s.chain, Key: s.key, Expires: s.expires})
	if r.o.OnUpdate != nil {
		r.o.OnUpdate(s.chain, s.key, roots)
	}
}

// ownTrustDomain returns the trust domain of the certificate's SPIFFE ID, or the configured one if
// it has none.
func (r *Renewer) ownTrustDomain(s certificate) string {
	if u, err := url.Parse(s.id); err == nil && u.Host != "" {
		return u.Host
	}
	return r.o.ID.Host
}

// addIssuerRoots adds the roots in issuer (PEM), which came with the workload's certificate, to the
// trust domain own. It skips roots that any trust domain has, and inserts own into domains, sorted
// by name, if it is missing. If domains is empty, it returns nil. domains is not modified, but
// returned as it is if nothing is added; invalid PEM is an error.
func addIssuerRoots(domains []secret.TrustDomain, issuer []byte, own string) ([]secret.TrustDomain, error) {
	if len(domains) == 0 {
		return nil, nil
	}
	listed := make([][]byte, 0, len(domains))
	for _, d := range domains {
		listed = append(listed, d.Roots)
	}
	known, err := secret.JoinCertificates(listed...)
	if err != nil {
		return nil, err
	}
	all, err := secret.JoinCertificates(known, issuer)
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimPrefix(all, known)
	if len(rest) == 0 {
		return domains, nil
	}
	domains = slices.Clone(domains)
	at, found := slices.BinarySearchFunc(domains, own, func(d secret.TrustDomain, name string) int {
		return strings.Compare(d.Name, name)
	})
	if !found {
		domains = slices.Insert(domains, at, secret.TrustDomain{Name: own})
	}
	domains[at].Roots = slices.Concat(domains[at].Roots, rest)
	return domains, nil
}

// renewalDelay returns the time until renewal: the remaining lifetime minus GraceRatio of it. The
// ratio is varied by up to GraceJitter in both directions and limited to 0 to 1.
func (r *Renewer) renewalDelay(expires time.Time) time.Duration {
	left := expires.Sub(r.o.Clock.Now())
	ratio := r.o.GraceRatio + r.o.GraceJitter*(2*r.o.Random()-1)
	return time.Duration(float64(left) * (1 - min(max(ratio, 0), 1)))
}

// addJitter returns wait, lengthened or shortened by up to a fifth at random. So agents that lost
// their authority together do not retry together.
func (r *Renewer) addJitter(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (0.8 + 0.4*r.o.Random()))
}
