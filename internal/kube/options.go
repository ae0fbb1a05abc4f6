package kube

import (
	"cmp"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// What istiod has as defaults of --kubernetesApiQPS and --kubernetesApiBurst.
const (
	defaultQPS   float32 = 80
	defaultBurst int     = 160
)

// Options say which API server is meant, and how much it may be asked.
type Options struct {
	// Kubeconfig is a file; empty: the service account of the pod.
	Kubeconfig string
	// QPS and Burst bound requests a second; 0: 80 and 160. Watches and what they bring do not count.
	QPS   float32
	Burst int
	// UserAgent names the program to the API server's logs.
	UserAgent string
}

// Config reads what Options name. It asks the API server nothing.
func (o Options) Config() (*rest.Config, error) {
	config, err := o.read()
	if err != nil {
		return nil, err
	}
	o.Tune(config)
	return config, nil
}

// Tune has a client ask as the Options say, whichever API server it is of.
func (o Options) Tune(config *rest.Config) {
	config.QPS, config.Burst, config.UserAgent = cmp.Or(o.QPS, defaultQPS), cmp.Or(o.Burst, defaultBurst), o.UserAgent
	// Protobuf is a third of JSON's size for built-in kinds; custom ones are only to be had as JSON.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
}

func (o Options) read() (*rest.Config, error) {
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
