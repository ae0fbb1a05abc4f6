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

// TokenReviews is the part of an API server that says whose a token is: AuthenticationV1().TokenReviews() of a client.
type TokenReviews interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, o metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// KubernetesOptions are the settings of Kubernetes.
type KubernetesOptions struct {
	TrustDomains TrustDomains
	// Audiences are those of which a token must have one. TOKEN_AUDIENCES, istio-ca.
	Audiences []string
	// Cluster is the name of the cluster that the control plane runs in. Reviews gives the API server of a cluster, nil for
	// one that is not known; a caller names its cluster in the header ClusterID, and none means Cluster. It is called for each
	// token, and must make no client each time.
	Cluster string
	Reviews func(cluster string) TokenReviews
	// Remember is how long a token counts as good without another review; 0: ten seconds, less than 0: not at all. A pod that was
	// deleted may be taken for one that lives for so long.
	Remember time.Duration
	// Refuse is how long a token counts as bad without another review; 0: two seconds, less than 0: not at all. Whoever tries the same
	// one again and again costs the API server a question in that time.
	Refuse time.Duration
	// Timeout bounds a review; 0: five seconds.
	Timeout time.Duration
	Now     func() time.Time
}

// Kubernetes believes tokens of service accounts that an API server vouches for.
type Kubernetes struct {
	o        KubernetesOptions
	reviewed *memory[Caller]
	refused  *memory[error] // apart, so that bad tokens put no good ones out
	flights  singleflight.Group
	limiter  *reviewLimiter
}

var _ Authenticator = (*Kubernetes)(nil)

const (
	// maxRemembered bounds the good tokens that are remembered, maxRefused the bad ones.
	maxRemembered = 50_000
	maxRefused    = 10_000
)

// NewKubernetes makes a Kubernetes.
func NewKubernetes(o KubernetesOptions) *Kubernetes {
	if o.Remember == 0 {
		o.Remember = 10 * time.Second
	}
	if o.Refuse == 0 {
		o.Refuse = 2 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Kubernetes{
		o: o, reviewed: newMemory[Caller](maxRemembered, o.Now), refused: newMemory[error](maxRefused, o.Now),
		limiter: newReviewLimiter(o.Now),
	}
}

// String names the kind.
func (*Kubernetes) String() string { return "Kubernetes token" }

// Authenticate has the token reviewed, unless its last review is still good. Reviews of one token that are asked for at once are one.
// Reviews of bad tokens are limited by source (reviewLimiter).
func (k *Kubernetes) Authenticate(ctx context.Context, r Request) (Caller, error) {
	token, err := bearer(r)
	if err != nil {
		return Caller{}, err
	}
	cluster, err := k.cluster(r)
	if err != nil {
		return Caller{}, err
	}
	reviews := k.o.Reviews(cluster)
	if reviews == nil {
		return Caller{}, fmt.Errorf("the cluster %.100q is not known", cluster)
	}
	key := sha256.Sum256([]byte(cluster + "\x00" + token))
	if c, ok := k.reviewed.get(key); ok {
		return c, nil
	}
	if err, ok := k.refused.get(key); ok {
		return Caller{}, err
	}
	// The review outlives the call that began it, for others may wait for it.
	flight := k.flights.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.o.Timeout)
		defer cancel()
		done, err := k.limiter.acquire(ctx, r.Peer)
		if err != nil {
			return Caller{}, err
		}
		c, err := k.review(ctx, reviews, cluster, token)
		done(err == nil || errors.Is(err, ErrUnavailable)) // that is not the client's fault
		switch {
		case err == nil:
			k.reviewed.put(key, c, k.o.Remember)
		case !errors.Is(err, ErrUnavailable): // the API server's own word
			k.refused.put(key, err, k.o.Refuse)
		}
		return c, err
	})
	select {
	case <-ctx.Done():
		return Caller{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	case done := <-flight:
		c, _ := done.Val.(Caller) // as the function gives it
		return c, done.Err
	}
}

// cluster gives the cluster that the caller says it is in.
func (k *Kubernetes) cluster(r Request) (string, error) {
	switch named := r.Header("clusterid"); {
	case len(named) == 0 || named[0] == "":
		return k.o.Cluster, nil
	case len(named) > 1:
		return "", errors.New("more than one ClusterID")
	default:
		return named[0], nil
	}
}

// review asks an API server. Whatever goes wrong is a no.
func (k *Kubernetes) review(ctx context.Context, reviews TokenReviews, cluster, token string) (Caller, error) {
	answer, err := reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: k.o.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return Caller{}, fmt.Errorf("%w: review a token: %w", ErrUnavailable, err)
	}
	return k.judge(answer.Status, cluster)
}

// judge reads an answer. An API server, or a webhook behind it, that knows nothing of audiences gives none: then the token
// may be meant for anybody, above all for the API server itself, and proves nothing here.
func (k *Kubernetes) judge(s authenticationv1.TokenReviewStatus, cluster string) (Caller, error) {
	switch {
	case s.Error != "":
		return Caller{}, errors.New("the API server found fault with the token")
	case !s.Authenticated:
		return Caller{}, errors.New("the API server does not know the token, or it is not for us")
	case !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(k.o.Audiences, a) }):
		return Caller{}, fmt.Errorf("the token is not for any of %q", k.o.Audiences)
	case !slices.Contains(s.User.Groups, "system:serviceaccounts"):
		return Caller{}, errors.New("the token is not that of a service account")
	}
	namespace, name, err := spiffe.ParseSubject(s.User.Username)
	if err != nil {
		return Caller{}, err
	}
	id, err := spiffe.Account{TrustDomain: k.o.TrustDomains.own(), Namespace: namespace, Name: name}.ID()
	if err != nil {
		return Caller{}, err
	}
	c := Caller{ID: id, Cluster: cluster}
	if pod := one(s.User.Extra["authentication.kubernetes.io/pod-name"]); pod != "" {
		c.Pod = Pod{Namespace: namespace, Name: pod, UID: one(s.User.Extra["authentication.kubernetes.io/pod-uid"])}
	}
	return c, nil
}

func one(list []string) string {
	if len(list) != 1 {
		return ""
	}
	return list[0]
}
