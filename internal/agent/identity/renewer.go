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
)

// The times between attempts: each is about twice the one before, up to the longest.
const (
	shortestRetry = 250 * time.Millisecond
	longestRetry  = 30 * time.Second
)

// Clock is the time.
type Clock interface {
	Now() time.Time
	// After gives a channel that gets the time once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Options are what a Renewer works with.
type Options struct {
	// Name is the workload's SPIFFE ID.
	Name *url.URL
	Keys KeyOptions
	// Lifetime is what is asked for. The authority may give less.
	Lifetime time.Duration
	// GraceRatio is the part of the lifetime that is left at renewal, GraceJitter how much more or less.
	GraceRatio, GraceJitter float64
	// Sign has a request signed. It is Authority.Sign.
	Sign  func(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error)
	Store *secret.Store
	// Written is told of every new secret; nil: nobody.
	Written func(chain, key, roots []byte)
	Clock   Clock
	// Random gives a number of [0, 1), for jitter.
	Random func() float64
	// Asked is told how each request for a certificate went; nil: nobody.
	Asked func(took time.Duration, err error)
	Log   *slog.Logger
}

// Renewer keeps the workload's certificate. The bundle of authorities that the mesh trusts besides may be set at any time.
type Renewer struct {
	o Options

	mu      sync.Mutex
	bundle  []byte
	domains []secret.Domain
	changed chan struct{} // holds something while there is a new bundle
}

// NewRenewer makes one.
func NewRenewer(o Options) *Renewer { return &Renewer{o: o, changed: make(chan struct{}, 1)} }

// Trust sets further authorities, in PEM, that the mesh trusts, and which of them vouch for which trust domains; nothing of that: all
// for all. They are taken up without a new certificate.
func (r *Renewer) Trust(bundle []byte, domains ...secret.Domain) {
	r.mu.Lock()
	r.bundle, r.domains = bundle, domains
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *Renewer) trusted() ([]byte, []secret.Domain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bundle, r.domains
}

// state is what one Run has.
type state struct {
	chain, key []byte
	expires    time.Time
	// name is what the certificate says who the workload is.
	name string
	// issuer is the root that came with the certificate.
	issuer []byte
}

// Run gets a certificate, and a new one each time that the last one has lived half of its life. It ends with the context.
func (r *Renewer) Run(ctx context.Context) error {
	var s state
	failures := 0
	due := r.o.Clock.After(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
			r.publish(s)
		case <-due:
			next, err := r.renew(ctx, s)
			if err != nil { // the end of the context too, which is looked at next
				wait := r.backOff(failures)
				failures++
				r.complain(ctx, s, err, wait)
				due = r.o.Clock.After(wait)
			} else {
				failures, s = 0, next
				r.publish(s)
				wait := r.untilRenewal(s.expires)
				r.o.Log.Info("workload certificate issued", "name", s.name, "expires", s.expires, "renewal_in", wait.Round(time.Second))
				due = r.o.Clock.After(wait)
			}
		}
	}
}

func (r *Renewer) complain(ctx context.Context, s state, err error, wait time.Duration) {
	switch {
	case ctx.Err() != nil:
	case s.chain == nil:
		r.o.Log.Warn("no workload certificate yet", "error", err, "next_attempt_in", wait)
	case s.expires.Before(r.o.Clock.Now()):
		r.o.Log.Error("the workload certificate has expired and cannot be renewed", "expired", s.expires, "error", err, "next_attempt_in", wait)
	default:
		r.o.Log.Warn("the workload certificate cannot be renewed yet, the old one serves", "expires", s.expires, "error", err, "next_attempt_in", wait)
	}
}

// renew makes a key and gets a certificate for it.
func (r *Renewer) renew(ctx context.Context, s state) (state, error) {
	key, err := r.o.Keys.newKey()
	if err != nil {
		return s, fmt.Errorf("make private key: %w", err)
	}
	csr, err := request(key, r.o.Name)
	if err != nil {
		return s, err
	}
	begin := r.o.Clock.Now()
	chain, err := r.o.Sign(ctx, csr, r.o.Lifetime)
	if r.o.Asked != nil {
		r.o.Asked(r.o.Clock.Now().Sub(begin), err)
	}
	if err != nil {
		return s, err
	}
	next, err := r.taken(key, chain)
	if err != nil {
		return s, fmt.Errorf("what the certificate authority gave: %w", err)
	}
	return next, nil
}

// taken looks at what was signed: Envoy would refuse what does not fit, and then have none. The last part is the root, or
// several.
func (r *Renewer) taken(key crypto.Signer, chain []string) (state, error) {
	if len(chain) < 2 {
		return state{}, fmt.Errorf("%d certificates, want the workload's and a root at least", len(chain))
	}
	encoded, err := r.o.Keys.encode(key)
	if err != nil {
		return state{}, err
	}
	last := len(chain) - 1
	leaf := []byte(joined(chain[:last]))
	pair, err := secret.Pair(leaf, encoded)
	if err != nil {
		return state{}, err
	}
	if !pair.Expires.After(r.o.Clock.Now()) {
		return state{}, fmt.Errorf("a certificate that expired at %v", pair.Expires)
	}
	issuer := []byte(joined(chain[last:]))
	if _, err := secret.Trust(issuer); err != nil {
		return state{}, fmt.Errorf("root: %w", err)
	}
	return state{chain: leaf, key: encoded, expires: pair.Expires, name: nameIn(leaf), issuer: issuer}, nil
}

// nameIn is the SPIFFE ID of a certificate in PEM, "" if it has none. It is the authority's to say: the mesh may have another trust
// domain than the agent was told of.
func nameIn(leaf []byte) string {
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

// joined puts parts of PEM together. They need not end with a line's end.
func joined(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.TrimRight(p, "\n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// publish sets what there is. Roots go first: a certificate of a new authority must not be there before it is trusted.
func (r *Renewer) publish(s state) {
	if s.chain == nil {
		return
	}
	bundle, domains := r.trusted()
	roots, err := secret.Join(s.issuer, bundle)
	if err == nil {
		domains, err = withIssuer(domains, s.issuer, r.domain(s))
	}
	if err != nil {
		r.o.Log.Error("the mesh's bundle of authorities is not used", "error", err)
		roots, domains = s.issuer, nil
	}
	trust, err := secret.Trust(roots)
	if err != nil {
		panic("identity: " + err.Error()) // taken has read them
	}
	trust.Domains = domains
	r.o.Store.Set(secret.Roots, trust)
	r.o.Store.Set(secret.Workload, secret.Secret{Chain: s.chain, Key: s.key, Expires: s.expires})
	if r.o.Written != nil {
		r.o.Written(s.chain, s.key, roots)
	}
}

// domain is the workload's trust domain, by its certificate.
func (r *Renewer) domain(s state) string {
	if u, err := url.Parse(s.name); err == nil && u.Host != "" {
		return u.Host
	}
	return r.o.Name.Host
}

// withIssuer adds the root that came with the certificate to the domains, if it is not said there whom it vouches for: then it is for the
// workload's own trust domain.
func withIssuer(domains []secret.Domain, issuer []byte, own string) ([]secret.Domain, error) {
	if len(domains) == 0 {
		return nil, nil
	}
	said := make([][]byte, 0, len(domains))
	for _, d := range domains {
		said = append(said, d.Roots)
	}
	known, err := secret.Join(said...)
	if err != nil {
		return nil, err
	}
	all, err := secret.Join(known, issuer)
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimPrefix(all, known)
	if len(rest) == 0 {
		return domains, nil
	}
	domains = slices.Clone(domains)
	at, found := slices.BinarySearchFunc(domains, own, func(d secret.Domain, name string) int { return strings.Compare(d.Name, name) })
	if !found {
		domains = slices.Insert(domains, at, secret.Domain{Name: own})
	}
	domains[at].Roots = slices.Concat(domains[at].Roots, rest)
	return domains, nil
}

// untilRenewal is how long a certificate serves before there should be another: what is left of its life, but for the part
// that is kept in reserve.
func (r *Renewer) untilRenewal(expires time.Time) time.Duration {
	left := expires.Sub(r.o.Clock.Now())
	ratio := r.o.GraceRatio + r.o.GraceJitter*(2*r.o.Random()-1)
	return time.Duration(float64(left) * (1 - min(max(ratio, 0), 1)))
}

// backOff is how long to wait after so many failures in a row before the present one: within a fifth, so that agents that
// lost their authority together do not come back together.
func (r *Renewer) backOff(failures int) time.Duration {
	wait := shortestRetry << min(failures, 16)
	wait = min(wait, longestRetry)
	return time.Duration(float64(wait) * (0.8 + 0.4*r.o.Random()))
}
