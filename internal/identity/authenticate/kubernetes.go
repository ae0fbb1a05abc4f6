package authenticate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// TokenReviews creates token reviews at an API server: AuthenticationV1().TokenReviews() of a
// client.
type TokenReviews interface {
	Create(
		ctx context.Context,
		review *authenticationv1.TokenReview,
		o metav1.CreateOptions,
	) (*authenticationv1.TokenReview, error)
}

// KubernetesOptions are the settings of the Kubernetes authenticator.
type KubernetesOptions struct {
	TrustDomains TrustDomains
	// Audiences are the accepted audiences; a token must have one of them (TOKEN_AUDIENCES, default
	// istio-ca).
	Audiences []string
	// Cluster is the control plane's own cluster, the default for callers without the header
	// ClusterID. Reviews returns the API server's client for a cluster, or nil if the cluster is
	// unknown. It is called for each token and must not create a client each time.
	Cluster string
	Reviews func(cluster string) TokenReviews
	// AcceptedTTL is how long an accepted token is cached (default 10 s; negative disables the
	// cache). For that time a deleted pod may still be authenticated.
	AcceptedTTL time.Duration
	// RejectedTTL is how long a rejected token is cached (default 2 s; negative disables the
	// cache). It bounds the reviews that one retried token can cause.
	RejectedTTL time.Duration
	// Timeout bounds one review (default 5 s).
	Timeout time.Duration
	Now     func() time.Time
}

// Kubernetes authenticates service account tokens through the TokenReview API.
type Kubernetes struct {
	o        KubernetesOptions
	accepted *tokenCache[Caller]
	rejected *tokenCache[error] // separate, so that rejected tokens evict no accepted ones
	flights  singleflight.Group
	limiter  *reviewLimiter
}

var _ Authenticator = (*Kubernetes)(nil)

const (
	// maxAccepted and maxRejected bound the cached tokens.
	maxAccepted = 50_000
	maxRejected = 10_000
)

// NewKubernetes returns a Kubernetes authenticator. Options that are zero have defaults:
// AcceptedTTL 10 s, RejectedTTL 2 s, Timeout 5 s, Now the system's clock. The caches of accepted
// and rejected tokens are bounded.
func NewKubernetes(o KubernetesOptions) *Kubernetes {
	if o.AcceptedTTL == 0 {
		o.AcceptedTTL = 10 * time.Second
	}
	if o.RejectedTTL == 0 {
		o.RejectedTTL = 2 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Kubernetes{
		o: o, accepted: newTokenCache[Caller](maxAccepted, o.Now), rejected: newTokenCache[error](maxRejected, o.Now),
		limiter: newReviewLimiter(o.Now),
	}
}

// String returns "Kubernetes token".
func (*Kubernetes) String() string { return "Kubernetes token" }

// Authenticate returns the caller of the bearer token, from the cache or by a review of the API
// server. It returns ErrNoCredentials without a token, and an error if the token is refused or the
// cluster unknown. The error wraps ErrUnavailable if the token could not be reviewed or ctx ends
// first. Concurrent reviews of one token are merged, and reviews are limited per source
// (reviewLimiter).
func (k *Kubernetes) Authenticate(ctx context.Context, r Request) (Caller, error) {
	token, err := bearerToken(r)
	if err != nil {
		return Caller{}, err
	}
	cluster, err := k.callerCluster(r)
	if err != nil {
		return Caller{}, err
	}
	reviews := k.o.Reviews(cluster)
	if reviews == nil {
		return Caller{}, fmt.Errorf("cluster %.100q is unknown", cluster)
	}
	key := sha256.Sum256([]byte(cluster + "\x00" + token))
	if c, ok := k.accepted.get(key); ok {
		return c, nil
	}
	if err, ok := k.rejected.get(key); ok {
		return Caller{}, err
	}
	// The review must not end with the first caller's context: others may wait for it.
	flight := k.flights.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.o.Timeout)
		defer cancel()
		done, err := k.limiter.acquire(ctx, r.Peer)
		if err != nil {
			return Caller{}, err
		}
		c, err := k.reviewToken(ctx, reviews, cluster, token)
		done(err == nil || errors.Is(err, ErrUnavailable)) // not the client's fault
		switch {
		case err == nil:
			k.accepted.add(key, c, k.o.AcceptedTTL)
		case !errors.Is(err, ErrUnavailable): // cache only answers of the API server
			k.rejected.add(key, err, k.o.RejectedTTL)
		}
		return c, err
	})
	select {
	case <-ctx.Done():
		return Caller{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	case done := <-flight:
		c, _ := done.Val.(Caller) // the function's result type
		return c, done.Err
	}
}

// callerCluster returns the cluster in the caller's ClusterID header, or Options.Cluster if there
// is no header or the first one is empty. It returns an error if the first one is followed by
// another, even an equal one.
func (k *Kubernetes) callerCluster(r Request) (string, error) {
	switch named := r.Header("clusterid"); {
	case len(named) == 0 || named[0] == "":
		return k.o.Cluster, nil
	case len(named) > 1:
		return "", errors.New("more than one ClusterID header")
	default:
		return named[0], nil
	}
}

// reviewToken returns the caller that the API server finds in a token (TokenReview). The error
// wraps ErrUnavailable if the request fails; otherwise the token was refused.
func (k *Kubernetes) reviewToken(ctx context.Context, reviews TokenReviews, cluster, token string) (Caller, error) {
	review, err := reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: k.o.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return Caller{}, fmt.Errorf("%w: review a token: %w", ErrUnavailable, err)
	}
	return k.callerFromStatus(review.Status, cluster)
}

// callerFromStatus returns the caller of a successful review, with its Pod if the token is bound to
// one. It returns an error unless the answer is authenticated, for a service account, and lists one
// of Audiences. An API server or webhook without support for audiences lists none, and its tokens
// may be intended for any recipient.
func (k *Kubernetes) callerFromStatus(s authenticationv1.TokenReviewStatus, cluster string) (Caller, error) {
	switch {
	case s.Error != "":
		return Caller{}, errors.New("the API server failed to review the token")
	case !s.Authenticated:
		return Caller{}, errors.New("the API server rejected the token, or its audience is another")
	case !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(k.o.Audiences, a) }):
		return Caller{}, fmt.Errorf("the token has none of the audiences %q", k.o.Audiences)
	case !slices.Contains(s.User.Groups, "system:serviceaccounts"):
		return Caller{}, errors.New("the token does not belong to a service account")
	}
	namespace, name, err := spiffe.ParseSubject(s.User.Username)
	if err != nil {
		return Caller{}, err
	}
	id, err := spiffe.Account{TrustDomain: k.o.TrustDomains.current(), Namespace: namespace, Name: name}.ID()
	if err != nil {
		return Caller{}, err
	}
	c := Caller{ID: id, Cluster: cluster}
	if pod := singleValue(s.User.Extra["authentication.kubernetes.io/pod-name"]); pod != "" {
		c.Pod = Pod{
			Namespace: namespace,
			Name:      pod,
			UID:       singleValue(s.User.Extra["authentication.kubernetes.io/pod-uid"]),
		}
	}
	return c, nil
}

// singleValue returns the only element of list, or "" if the list does not have exactly one.
func singleValue(list []string) string {
	if len(list) != 1 {
		return ""
	}
	return list[0]
}
