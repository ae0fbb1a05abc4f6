package authenticate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// counted counts reviews.
type counted struct {
	TokenReviews
	n atomic.Int64
}

func (c *counted) Create(
	ctx context.Context,
	r *authenticationv1.TokenReview,
	o metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	c.n.Add(1)
	return c.TokenReviews.Create(ctx, r, o)
}

// TestTokensOfAnAPIServer: a real API server reviews the tokens. T-TR.
func TestTokensOfAnAPIServer(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client := c.Client(t)
	ns := c.Namespace(t, "tokens", nil)
	if _, err := client.CoreV1().ServiceAccounts(ns).Create(
		t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
		metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
		Spec:       corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reviews := &counted{TokenReviews: client.AuthenticationV1().TokenReviews()}
	k := NewKubernetes(KubernetesOptions{
		TrustDomains: domains, Audiences: []string{"istio-ca"}, Cluster: "here", AcceptedTTL: -1,
		Reviews: func(cluster string) TokenReviews {
			if cluster != "here" {
				return nil
			}
			return reviews
		},
	})
	toPod := func() string {
		return c.TokenOf(
			t,
			ns,
			"web",
			authenticationv1.TokenRequestSpec{
				Audiences: []string{"istio-ca"},
				BoundObjectRef: &authenticationv1.BoundObjectReference{
					Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
				},
			},
		)
	}
	// An API server caches for ten seconds that a token is valid, so another token is reviewed
	// after the pod is deleted.
	bound, unused := toPod(), toPod()
	free := c.Token(t, ns, "web", "istio-ca")
	ours := "spiffe://cluster.local/ns/" + ns + "/sa/web"
	named := func(token, cluster string) Request {
		return headers("authorization", "Bearer "+token, "clusterid", cluster)
	}
	for name, tt := range map[string]struct {
		r    Request
		want string
	}{
		"of a pod":               {bearing(bound), ours},
		"of no pod":              {bearing(free), ours},
		"of its cluster":         {named(free, "here"), ours},
		"of a cluster not known": {named(free, "elsewhere"), ""},
		"for the API server":     {bearing(c.Token(t, ns, "web")), ""},
		"for others":             {bearing(c.Token(t, ns, "web", "other")), ""},
		"garbage":                {bearing("garbage"), ""},
		"payload null":           {bearing(".bnVsbM."), ""},
		"none":                   {headers(), "none"},
	} {
		who, err := k.Authenticate(t.Context(), tt.r)
		check(t, name, who, err, tt.want)
		if name == "of a pod" && (who.Pod != Pod{ns, "web-1", string(pod.UID)} || who.Cluster != "here") {
			t.Errorf("the pod is %+v of %q", who.Pod, who.Cluster)
		}
	}
	for _, p := range payloads() {
		if who, err := k.Authenticate(t.Context(), bearing(raw(t, newKey(t), "1", p))); err == nil {
			t.Errorf("the payload %.50q is %v", p, who.ID)
		}
	}

	if err := client.CoreV1().Pods(ns).Delete(
		t.Context(),
		pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
	); err != nil {
		t.Fatal(err)
	}
	gone := false
	for end := time.Now().Add(20 * time.Second); !gone && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, err := k.Authenticate(t.Context(), bearing(unused))
		gone = err != nil && !errors.Is(err, ErrUnavailable)
	}
	if !gone {
		t.Error("the token of a pod that was deleted is still good")
	}

	remembering := NewKubernetes(KubernetesOptions{
		TrustDomains: domains,
		Audiences:    []string{"istio-ca"},
		Cluster:      "here",
		Reviews:      func(string) TokenReviews { return reviews },
		Timeout:      time.Second,
	})
	before := reviews.n.Load()
	for range 100 {
		if _, err := remembering.Authenticate(t.Context(), bearing(free)); err != nil {
			t.Fatal(err)
		}
	}
	if n := reviews.n.Load() - before; n != 1 {
		t.Errorf("one token took %d reviews, want 1", n)
	}
	if err := c.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	_, known := remembering.Authenticate(t.Context(), bearing(free))
	_, unknown := remembering.Authenticate(t.Context(), bearing(free+"x"))
	if err := c.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if known != nil || !errors.Is(unknown, ErrUnavailable) {
		t.Errorf("while the API server does not answer: %v for a token that is remembered, %v for another",
			known, unknown)
	}
}

// reviewer returns the review that a test sets.
type reviewer func(token string) (*authenticationv1.TokenReview, error)

func (r reviewer) Create(
	_ context.Context,
	review *authenticationv1.TokenReview,
	_ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	return r(review.Spec.Token)
}

// TestBadTokensAreRemembered: a rejected token that is retried causes one review per RejectedTTL.
// Rejected tokens evict no accepted ones, and a failed review is not cached.
func TestBadTokensAreRemembered(t *testing.T) {
	now, away := time.Unix(1_000_000, 0), false
	reviews := &counted{TokenReviews: reviewer(func(token string) (*authenticationv1.TokenReview, error) {
		if away {
			return nil, errors.New("away")
		}
		return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: token == "good",
			Audiences:     []string{"istio-ca"},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:ns:sa",
				Groups:   []string{"system:serviceaccounts"},
			},
		}}, nil
	})}
	k := NewKubernetes(KubernetesOptions{
		TrustDomains: domains, Audiences: []string{"istio-ca"}, Now: func() time.Time { return now },
		Reviews: func(string) TokenReviews { return reviews },
	})
	shown := func(token string, times int) (cost int64, last error) {
		before := reviews.n.Load()
		for range times {
			_, last = k.Authenticate(t.Context(), bearing(token))
		}
		return reviews.n.Load() - before, last
	}
	for i, step := range []struct {
		token string
		later time.Duration
		cost  int64
		good  bool
	}{
		{token: "bad", cost: 1}, {token: "bad", later: time.Second, cost: 0}, {token: "bad", later: time.Second, cost: 1},
		{token: "good", cost: 1, good: true}, {token: "good", later: 9 * time.Second, good: true},
	} {
		now = now.Add(step.later)
		cost, err := shown(step.token, 100)
		if cost != step.cost || (err == nil) != step.good {
			t.Errorf("step %d: %d reviews (%v), want %d", i, cost, err, step.cost)
		}
	}
	for i := range 2 * maxRejected {
		peer := fmt.Sprintf("10.%d.%d.1", i/100>>8, i/100&255) // each source has a budget of its own
		if _, err := k.Authenticate(t.Context(), from(peer, "bad-"+strconv.Itoa(i))); err == nil ||
			errors.Is(err, ErrUnavailable) {
			t.Fatalf("bad token %d: %v", i, err)
		}
	}
	if n := len(k.rejected.entries); n > maxRejected {
		t.Errorf("%d bad tokens are remembered", n)
	}
	if cost, err := shown("good", 1); cost != 0 || err != nil {
		t.Errorf("bad tokens have put a good one out: %d reviews, %v", cost, err)
	}
	away = true
	if cost, err := shown("new", 3); cost != 3 || !errors.Is(err, ErrUnavailable) {
		t.Errorf("while the API server is away: %d reviews, %v", cost, err)
	}
}

// TestAnswersOfAPIServers: a webhook behind an API server may return any status.
func TestAnswersOfAPIServers(t *testing.T) {
	k := NewKubernetes(KubernetesOptions{TrustDomains: domains, Audiences: []string{"istio-ca"}})
	good := func() authenticationv1.TokenReviewStatus {
		return authenticationv1.TokenReviewStatus{
			Authenticated: true,
			Audiences:     []string{"istio-ca"},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:a:b",
				Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:a"},
			},
		}
	}
	for name, tt := range map[string]struct {
		change func(*authenticationv1.TokenReviewStatus)
		want   string
	}{
		"good":                 {func(*authenticationv1.TokenReviewStatus) {}, "spiffe://cluster.local/ns/a/sa/b"},
		"of several":           {func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"x", "istio-ca"} }, "spiffe://cluster.local/ns/a/sa/b"},
		"no audiences":         {func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }, ""},
		"others":               {func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"x"} }, ""},
		"no":                   {func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }, ""},
		"yes, with an error":   {func(s *authenticationv1.TokenReviewStatus) { s.Error = "x" }, ""},
		"a person":             {func(s *authenticationv1.TokenReviewStatus) { s.User.Username, s.User.Groups = "admin", nil }, ""},
		"a person of its name": {func(s *authenticationv1.TokenReviewStatus) { s.User.Groups = []string{"system:authenticated"} }, ""},
		"a node":               {func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:node:a" }, ""},
		"too many parts":       {func(s *authenticationv1.TokenReviewStatus) { s.User.Username += ":c" }, ""},
		"nobody":               {func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "" }, ""},
		"nothing":              {func(s *authenticationv1.TokenReviewStatus) { *s = authenticationv1.TokenReviewStatus{} }, ""},
	} {
		s := good()
		tt.change(&s)
		who, err := k.callerFromStatus(s, "c")
		check(t, name, who, err, tt.want)
	}
}

// failing returns no review.
type failing struct{ err error }

func (f failing) Create(
	context.Context,
	*authenticationv1.TokenReview,
	metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	return nil, f.err
}

func TestChain(t *testing.T) {
	key := newKey(t)
	w, err := NewWorkloadToken(&key.PublicKey, []string{"istio-ca"}, domains, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := NewKubernetes(
		KubernetesOptions{
			TrustDomains: domains,
			Audiences:    []string{"istio-ca"},
			Reviews:      func(string) TokenReviews { return failing{errors.New("down")} },
		},
	)
	chain := Chain{ClientCertificate{domains}, w, k}
	good, err := SignWorkloadToken(key, "a", "b", []string{"istio-ca"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	who, err := chain.Authenticate(t.Context(), bearing(good))
	if err != nil || who.By != "workload token" {
		t.Errorf("a good token does not do: %v by %s", err, who.By)
	}
	if _, err := chain.Authenticate(t.Context(), bearing("opaque")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error for a token that cannot be reviewed = %v", err)
	}
	if _, err := chain.Authenticate(t.Context(), headers()); !errors.Is(err, ErrNoCredentials) {
		t.Errorf("error without a token = %v", err)
	}
	if _, err := (Chain{}).Authenticate(t.Context(), bearing(good)); !errors.Is(err, ErrNoCredentials) {
		t.Errorf("error without an API server = %v", err)
	}
	for token, want := range map[string]string{"a.b.c": "no credentials except a token of an unknown issuer", "": "no credentials"} {
		if _, err := (Chain{w}).Authenticate(t.Context(), bearing(token)); !errors.Is(err, ErrNoCredentials) ||
			err.Error() != want {
			t.Errorf("token %q: got %v, want %s", token, err, want)
		}
	}
}
