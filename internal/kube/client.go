package kube

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
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
}

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
	return c, nil
}
