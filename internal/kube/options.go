package kube

import (
	"cmp"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The defaults of istiod's flags --kubernetesApiQPS and --kubernetesApiBurst.
const (
	defaultQPS   float32 = 80
	defaultBurst int     = 160
)

// Options select an API server and the rate limit of requests.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. If empty, the pod's service account is used.
	Kubeconfig string
	// QPS and Burst limit the requests per second (defaults 80 and 160). Watch events are not
	// limited.
	QPS   float32
	Burst int
	// UserAgent identifies the program in the API server's logs.
	UserAgent string
}

// RESTConfig returns the client configuration of the kubeconfig, or without one of the pod's
// service account, as ApplyTo changes it. It sends no request. It returns an error if neither can
// be read.
func (o Options) RESTConfig() (*rest.Config, error) {
	config, err := o.loadConfig()
	if err != nil {
		return nil, err
	}
	o.ApplyTo(config)
	return config, nil
}

// ApplyTo sets the rate limit, user agent and content types of a client configuration for any API
// server. Rate limits that are 0 get their defaults.
func (o Options) ApplyTo(config *rest.Config) {
	config.QPS, config.Burst, config.UserAgent = cmp.Or(o.QPS, defaultQPS), cmp.Or(o.Burst, defaultBurst), o.UserAgent
	// For built-in kinds, protobuf has a third of JSON's size. Custom resources are only served as
	// JSON.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
}

// loadConfig loads the kubeconfig, with its current context, or without one the pod's service
// account. The error names the kubeconfig.
func (o Options) loadConfig() (*rest.Config, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("read the pod's service account: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", o.Kubeconfig, err)
	}
	return config, nil
}
