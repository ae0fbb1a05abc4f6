package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client holds the clients for one API server. They share connections and one rate limit.
type Client struct {
	// Config is the common configuration, for creating further clients.
	Config *rest.Config
	// HTTP is the shared HTTP client.
	HTTP *http.Client
	// Kubernetes serves built-in kinds, Dynamic custom resources, and Metadata the metadata of any
	// kind.
	Kubernetes *kubernetes.Clientset
	Dynamic    *dynamic.DynamicClient
	Metadata   metadata.Interface
	// Reviews creates token reviews. It has its own rate limit: proxies wait for reviews, which
	// must not queue behind lists and writes, and a flood of tokens must not delay those.
	Reviews authenticationv1.TokenReviewInterface
}

// reviewQPS and reviewBurst limit token reviews per second.
const (
	reviewQPS   = 200
	reviewBurst = 400
)

// NewClient returns the clients of an API server, which share connections and, except Reviews, a
// rate limit. That is config's RateLimiter, or else its QPS and Burst with their defaults. It sends
// no request, and does not change config. It returns an error if config is invalid.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.RateLimiter == nil { // shared by all clients
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(
			cmp.Or(config.QPS, defaultQPS),
			cmp.Or(config.Burst, defaultBurst),
		)
	}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create an HTTP client for %s: %w", config.Host, err)
	}
	c := &Client{Config: config, HTTP: hc}
	if c.Kubernetes, err = kubernetes.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("create a dynamic client for %s: %w", config.Host, err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, hc); err != nil {
		return nil, fmt.Errorf("create a metadata client for %s: %w", config.Host, err)
	}
	reviews := rest.CopyConfig(config)
	reviews.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewQPS, reviewBurst)
	authentication, err := authenticationv1.NewForConfigAndClient(reviews, hc)
	if err != nil {
		return nil, fmt.Errorf("create a client for token reviews of %s: %w", config.Host, err)
	}
	c.Reviews = authentication.TokenReviews()
	return c, nil
}

// WithRateLimit returns another client for the same API server with its own connections and rate
// limit. So requests of the two clients cannot delay each other. It returns an error if the
// configuration is invalid.
func (c *Client) WithRateLimit(qps float32, burst int) (*Client, error) {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	return NewClient(config)
}

// ConfigMapKey returns the value of a key in data of a ConfigMap; binaryData is not read. It
// returns nil without an error if the ConfigMap or the key does not exist.
func (c *Client) ConfigMapKey(ctx context.Context, namespace, name, key string) ([]byte, error) {
	m, err := c.Kubernetes.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if text, there := m.Data[key]; there {
		return []byte(text), nil
	}
	return nil, nil
}
