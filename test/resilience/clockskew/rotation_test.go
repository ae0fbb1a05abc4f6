package clockskew

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/identity"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const (
	simulated = 7 * 24 * time.Hour
	// step is the interval between verifications of the certificate while no event occurs.
	step     = 10 * time.Minute
	lifetime = 24 * time.Hour
	audience = "istio-ca"
	// tokenLife is the lifetime of a projected token. The kubelet replaces the token after 80 % of
	// it.
	tokenLife = time.Hour
)

// outage is an interval in which something fails.
type outage struct{ from, to time.Duration }

func (o outage) holds(since time.Duration) bool { return since >= o.from && since < o.to }

// scenario lists the outages and clock offsets of a simulated week.
type scenario struct {
	// authority, agent and verifier are the offsets of their clocks.
	authority, agent, verifier time.Duration
	// away are outages of the authority; stale are intervals in which the token is not replaced,
	// and expires.
	away, stale []outage
}

// result contains the observations of a simulation.
type result struct {
	observed, handshakes, rotations, refused, staleTokens int
	lapses                                                []string
}

// TestNoCertificateLapses simulates weeks in which clocks differ by up to two minutes, the
// authority is unreachable for up to ten hours, and tokens expire. At no time does a verifier
// reject the agent's certificate as expired or not yet valid.
func TestNoCertificateLapses(t *testing.T) {
	weeks := scorecard.BySize(longtest.Rounds(2, 27), 270, 2_700)
	check := scorecard.Check(t, 27, scorecard.Size("simulated weeks", weeks), scorecard.Size("skew", 2*time.Minute))
	var all result
	list := skews(time.Minute) // two clocks differ by two minutes at most
	for week := range weeks {
		skew := list[week*7%len(list)] // all of them in turn
		s := scenario{authority: skew[0], agent: skew[1], verifier: skew[2]}
		s.randomOutages(mathrand.New(mathrand.NewPCG(uint64(week), 27)), 10*time.Hour)
		r := s.simulate(t)
		all.add(r)
		for _, lapse := range r.lapses {
			t.Errorf("week %d, authority %v, agent %v, verifier %v: %s", week, s.authority, s.agent, s.verifier, lapse)
		}
		if t.Failed() {
			break
		}
	}
	check.Measured("certificate lapses", len(all.lapses))
	check.Measured("verifications", all.observed)
	check.Measured("handshakes", all.handshakes)
	check.Measured("rotations", all.rotations)
	check.Measured("requests while the authority was away", all.refused)
	check.Measured("requests with an expired token", all.staleTokens)
	t.Logf("%+v", all)
	if all.rotations == 0 || all.refused == 0 || all.staleTokens == 0 {
		t.Error("nothing was rotated, or no outage was met: the test is not effective")
	}
}

func (r *result) add(o result) {
	r.observed += o.observed
	r.handshakes += o.handshakes
	r.rotations += o.rotations
	r.refused += o.refused
	r.staleTokens += o.staleTokens
	r.lapses = append(r.lapses, o.lapses...)
}

// skews are all ways in which three clocks are ahead, behind, or right.
func skews(by time.Duration) (list [][3]time.Duration) {
	offsets := []time.Duration{-by, 0, by}
	for _, a := range offsets {
		for _, b := range offsets {
			for _, c := range offsets {
				list = append(list, [3]time.Duration{a, b, c})
			}
		}
	}
	return list
}

// randomOutages has one each day. Between the ends of two there is time enough for a request.
func (s *scenario) randomOutages(r *mathrand.Rand, longest time.Duration) {
	for day := range 7 {
		from := time.Duration(day)*24*time.Hour + time.Duration(r.Int64N(int64(12*time.Hour))) + time.Minute
		one := outage{from, from + time.Duration(r.Int64N(int64(longest)))}
		if r.IntN(3) == 0 {
			s.stale = append(s.stale, outage{one.from, one.to})
		} else {
			s.away = append(s.away, one)
		}
	}
}

// plane is the authority with its clock, and the issuer of tokens.
type plane struct {
	*simulation
	scenario
	began   time.Time
	service *ca.Service
	signer  *ecdsa.PrivateKey
	token   string
	issued  time.Time
	result  *result
}

func newPlane(t *testing.T, s scenario, sim *simulation, r *result) *plane {
	t.Helper()
	at := clock{sim, s.authority}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	domains := func() []string { return []string{"cluster.local"} }
	tokens, err := authenticate.NewWorkloadToken(&signer.PublicKey, []string{audience}, domains, at.Now)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.SelfSigned{TrustDomain: "cluster.local", Lifetime: 10 * 365 * 24 * time.Hour}.NewRoot(rand.Reader, at.Now())
	if err != nil {
		t.Fatal(err)
	}
	issuer := ca.NewAuthority(ca.AuthorityOptions{Now: at.Now})
	if _, err := issuer.ReplaceMaterial(files); err != nil {
		t.Fatal(err)
	}
	return &plane{
		simulation: sim, scenario: s, began: sim.time(), signer: signer, result: r,
		service: ca.NewService(ca.ServiceOptions{Authenticators: authenticate.Chain{tokens}, Issuer: issuer, TrustDomain: func() string { return "cluster.local" }, Now: at.Now}),
	}
}

var errAway = errors.New("the authority cannot be reached")

// sign is the agent's request to the authority, with the token that the kubelet has written last.
func (p *plane) sign(_ context.Context, csr []byte, asked time.Duration) ([]string, error) {
	since := p.time().Sub(p.began)
	for _, o := range p.away {
		if o.holds(since) {
			p.result.refused++
			return nil, errAway
		}
	}
	if err := p.refreshToken(since); err != nil {
		return nil, err
	}
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer "+p.token))
	answer, err := p.service.CreateCertificate(ctx, &securityv1.IstioCertificateRequest{Csr: string(csr), ValidityDuration: int64(asked / time.Second)})
	if err != nil {
		p.result.staleTokens++
		return nil, err
	}
	p.result.rotations++
	return answer.GetCertChain(), nil
}

// refreshToken replaces the token after 80 % of its lifetime, unless that fails at this time. Its
// issuer's clock is correct.
func (p *plane) refreshToken(since time.Duration) error {
	now := p.time()
	for _, o := range p.stale {
		if o.holds(since) && p.token != "" {
			now = p.began.Add(o.from) // the last time that it was replaced
		}
	}
	if p.token != "" && now.Sub(p.issued) < tokenLife*8/10 {
		return nil
	}
	token, err := authenticate.SignWorkloadToken(p.signer, "shop", "web", []string{audience}, now, tokenLife)
	if err != nil {
		return err
	}
	p.token, p.issued = token, now
	return nil
}

// simulate runs a week.
func (s scenario) simulate(t *testing.T) result {
	t.Helper()
	var r result
	sim := newSimulation()
	p := newPlane(t, s, sim, &r)
	store := secret.NewStore()
	renewer := identity.NewRenewer(identity.Options{
		ID: identity.SPIFFEID("cluster.local", "shop", "web"), Lifetime: lifetime, GraceRatio: 0.5, GraceJitter: 0.01, Sign: p.sign, Store: store,
		Clock: clock{sim, s.agent}, Random: mathrand.New(mathrand.NewPCG(1, 1)).Float64, Log: slog.New(slog.DiscardHandler), Keys: identity.KeyOptions{Curve: "P256"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- renewer.Run(ctx) }()
	var last uint64
	var observed time.Time
	sim.run(t, p.began.Add(simulated), step, func(now time.Time) {
		own, ok := store.Get(secret.WorkloadName)
		if !ok {
			return // the first certificate has not come yet
		}
		if own.Version == last && now.Sub(observed) < step { // an attempt in an outage: it changes nothing
			return
		}
		observed = now
		r.observed++
		if err := s.verify(store, own.Secret, now); err != nil {
			r.lapses = append(r.lapses, fmt.Sprintf("after %v: %v", now.Sub(p.began), err))
		}
		if own.Version != last {
			last = own.Version
			r.handshakes++
			if err := s.handshake(store, own.Secret, now); err != nil {
				r.lapses = append(r.lapses, fmt.Sprintf("after %v: handshake: %v", now.Sub(p.began), err))
			}
		}
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return r
}

// pool returns the roots that the agent has.
func pool(store *secret.Store) *x509.CertPool {
	roots := x509.NewCertPool()
	if trust, ok := store.Get(secret.RootsName); ok {
		roots.AppendCertsFromPEM(trust.Roots)
	}
	return roots
}

// verify checks the validity of the certificate by the verifier's clock.
func (s scenario) verify(store *secret.Store, own secret.Secret, now time.Time) error {
	list, err := secret.ParseCertificates(own.Chain)
	if err != nil {
		return err
	}
	_, err = list[0].Verify(x509.VerifyOptions{
		Roots: pool(store), CurrentTime: now.Add(s.verifier), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return err
}

// handshake connects two workloads with this certificate by mutual TLS, of which one has the verifier's clock and one the agent's.
func (s scenario) handshake(store *secret.Store, own secret.Secret, now time.Time) error {
	pair, err := tls.X509KeyPair(own.Chain, own.Key)
	if err != nil {
		return err
	}
	roots := pool(store)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	at := func(offset time.Duration) func() time.Time { return func() time.Time { return now.Add(offset) } }
	server := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, Time: at(s.verifier), MinVersion: tls.VersionTLS12})
	client := tls.Client(b, &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, Time: at(s.agent), InsecureSkipVerify: true, // as Envoy: by roots and SPIFFE ID, not by host
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(s.agent)})
			return err
		},
	})
	failed := make(chan error, 1)
	go func() {
		failed <- server.Handshake()
		a.Close()
	}()
	err = client.Handshake()
	_, _ = client.Read(make([]byte, 1)) // the server's alert, or its end
	return errors.Join(err, <-failed)
}

// TestLargeSkews checks the effect of larger differences. With a clock of an agent that is an hour
// ahead or behind no certificate expires. An authority that is an hour behind refuses tokens as not
// valid yet, and signs nothing. A verifier that is behind the authority by more than its backdating
// of two minutes refuses each new certificate until its clock catches up.
func TestLargeSkews(t *testing.T) {
	longtest.Test(t)
	check := scorecard.Check(t, 27, scorecard.Size("stated skew", time.Hour))
	for _, c := range []struct {
		name             string
		s                scenario
		lapses, unsigned bool
	}{
		{name: "agent an hour ahead", s: scenario{agent: time.Hour}},
		{name: "agent an hour behind", s: scenario{agent: -time.Hour}, lapses: true}, // as a verifier it is behind the authority
		{name: "verifier an hour ahead", s: scenario{verifier: time.Hour}},
		{name: "verifier an hour behind", s: scenario{verifier: -time.Hour}, lapses: true},
		{name: "authority an hour behind", s: scenario{authority: -time.Hour}, unsigned: true},
		{name: "authority an hour ahead", s: scenario{authority: time.Hour}, lapses: true},
		{name: "verifier two minutes behind", s: scenario{verifier: -2 * time.Minute}},
		{name: "verifier three minutes behind", s: scenario{verifier: -3 * time.Minute}, lapses: true},
		{name: "authority away for 14 hours", s: scenario{away: []outage{{11 * time.Hour, 25 * time.Hour}}}, lapses: true},
	} {
		r := c.s.simulate(t)
		check.Measured(c.name+": verifications that failed", fmt.Sprintf("%d of %d", len(r.lapses), r.observed))
		if unsigned := r.observed == 0; unsigned != c.unsigned {
			t.Errorf("%s: %d verifications", c.name, r.observed)
		}
		if (len(r.lapses) > 0) != c.lapses {
			t.Errorf("%s: %d lapses, expected %v: %.400q", c.name, len(r.lapses), c.lapses, r.lapses)
		}
	}
}
