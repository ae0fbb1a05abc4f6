package kube

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client asks one API server. All its clients share connections and one limit of requests.
type Client struct {
	// Config is what the others were made of, for a client of another kind.
	Config *rest.Config
	// HTTP is what all clients ask with.
	HTTP *http.Client
	// Kubernetes is for built-in kinds, Dynamic for custom ones, Metadata for who only counts or names objects.
	Kubernetes *kubernetes.Clientset
	Dynamic    *dynamic.DynamicClient
	Metadata   metadata.Interface
	// Reviews asks whose tokens are good. It has a limit of requests of its own: proxies wait for reviews, which must not wait behind
	// lists and writes, nor must those wait behind a flood of tokens.
	Reviews authenticationv1.TokenReviewInterface
}

// reviewQPS and reviewBurst bound the token reviews a second.
const (
	reviewQPS   = 200
	reviewBurst = 400
)

// NewClient makes the clients. It asks the API server nothing.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.RateLimiter == nil { // one for all clients
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cmp.Or(config.QPS, defaultQPS), cmp.Or(config.Burst, defaultBurst))
	}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make an HTTP client for %s: %w", config.Host, err)
	}
	c := &Client{Config: config, HTTP: hc}
	if c.Kubernetes, err = kubernetes.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("make a dynamic client for %s: %w", config.Host, err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("make a metadata client for %s: %w", config.Host, err)
	}
	reviews := rest.CopyConfig(config)
	reviews.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewQPS, reviewBurst)
	authentication, err := authenticationv1.NewForConfigAndClient(reviews, hc)
	if err != nil {
		return nil, fmt.Errorf("make a client for token reviews of %s: %w", config.Host, err)
	}
	c.Reviews = authentication.TokenReviews()
	return c, nil
}
