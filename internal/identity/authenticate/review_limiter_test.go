package authenticate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowServer reviews tokens like an API server that takes 20 ms for each: tokens that begin with
// "good" are valid.
type slowServer struct {
	n, now, most atomic.Int64
}

func (s *slowServer) Create(
	ctx context.Context,
	r *authenticationv1.TokenReview,
	_ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	s.n.Add(1)
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Millisecond):
	}
	if strings.HasPrefix(r.Spec.Token, "good") {
		r.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true,
			Audiences:     []string{"istio-ca"},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:ns:web", Groups: []string{"system:serviceaccounts"},
			},
		}
	}
	return r, nil
}

// from is a request with a token from an address.
func from(peer, token string) Request {
	r := bearing(token)
	r.Peer = netip.MustParseAddr(peer)
	return r
}

// TestFloodOfBadTokens: 500 clients of one address send distinct bad tokens as fast as they can.
// Clients of another address with valid tokens are not delayed, and few bad tokens reach the API
// server.
func TestFloodOfBadTokens(t *testing.T) {
	server := new(slowServer)
	k := NewKubernetes(KubernetesOptions{
		TrustDomains: domains,
		Audiences:    []string{"istio-ca"},
		Cluster:      "here",
		Reviews:      func(string) TokenReviews { return server },
	})
	ctx, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	var tried atomic.Int64
	for i := range 500 {
		attackers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := k.Authenticate(ctx, from("10.6.6.6", fmt.Sprintf("bad-%d-%d", i, n))); err == nil {
					t.Error("an invalid token was accepted")
				}
				tried.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for tried.Load() < 1000 {
		time.Sleep(time.Millisecond)
	}
	var honest sync.WaitGroup
	var slowest atomic.Int64
	for i := range 300 { // a fleet behind one address reconnects
		honest.Go(func() {
			begin := time.Now()
			if _, err := k.Authenticate(t.Context(), from("10.0.0.1", fmt.Sprintf("good-%d", i%150))); err != nil {
				t.Errorf("a good token: %v", err)
			}
			took := int64(time.Since(begin))
			for s := slowest.Load(); took > s && !slowest.CompareAndSwap(s, took); s = slowest.Load() {
			}
		})
	}
	honest.Wait()
	stop()
	attackers.Wait()
	bad := server.n.Load() - 150
	t.Logf("%d bad tokens, %d reviews of them, at most %d reviews at once; slowest good token %v",
		tried.Load(), bad, server.most.Load(), time.Duration(slowest.Load()))
	if bad > badTokenBudget+50 {
		t.Errorf("the API server was asked about %d bad tokens", bad)
	}
	if most := server.most.Load(); most > 2*reviewsPerSource {
		t.Errorf("%d reviews at once of two sources", most)
	}
	if took := time.Duration(slowest.Load()); took > time.Second {
		t.Errorf("the review of a valid token took %v", took)
	}
}

// TestBudgetIsRefilled: a source that has used up its budget gets ErrUnavailable, and may retry
// after a while.
func TestBudgetIsRefilled(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newReviewLimiter(func() time.Time { return now })
	review := func(peer string, good bool) error {
		done, err := l.acquire(t.Context(), netip.MustParseAddr(peer))
		if err == nil {
			done(good)
		}
		return err
	}
	for range 10 * badTokenBudget {
		if err := review("10.0.0.1", true); err != nil {
			t.Fatal("a good token:", err)
		}
	}
	for range badTokenBudget {
		if err := review("10.0.0.1", false); err != nil {
			t.Fatal(err)
		}
	}
	if err := review("10.0.0.1", true); !errors.Is(err, ErrUnavailable) {
		t.Errorf("beyond its budget: %v", err)
	}
	if err := review("10.0.0.2", true); err != nil {
		t.Errorf("another source: %v", err)
	}
	for i := range badTokenBudget { // all of a /64 are one source
		if err := review(fmt.Sprintf("fd00::%x", i+1), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := review("fd00::ffff:1", true); err == nil {
		t.Error("an address of a /64 that has sent too many")
	}
	now = now.Add(time.Second)
	if err := review("10.0.0.1", true); err != nil {
		t.Errorf("a second later: %v", err)
	}
	for i := range 2 * maxReviewSources {
		if err := review(fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255), false); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.sources) > maxReviewSources {
		t.Errorf("%d sources are tracked", len(l.sources))
	}
}

// TestTokenCacheIsBounded: at the bound expired entries are evicted first, and never all valid
// ones.
func TestTokenCacheIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newTokenCache[int](800, func() time.Time { return now })
	key := func(i int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, i)) }
	for i := range 400 {
		m.add(key(i), i, time.Second)
	}
	now = now.Add(2 * time.Second)
	for i := range 800 {
		m.add(key(1000+i), i, time.Minute)
	}
	if got := len(m.entries); got != 800 {
		t.Errorf("%d entries, want 800: expired ones are evicted first", got)
	}
	for i := range 10_000 {
		m.add(key(10_000+i), i, time.Minute)
		if n := len(m.entries); n > 800 || n < 700 {
			t.Fatalf("%d entries", n)
		}
	}
}
