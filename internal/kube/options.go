package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
	config.QPS, config.Burst, config.UserAgent = o.QPS, o.Burst, o.UserAgent
	if config.QPS == 0 {
		config.QPS = 80
	}
	if config.Burst == 0 {
		config.Burst = 160
	}
	// Protobuf is a third of JSON's size for built-in kinds; custom ones are only to be had as JSON.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return config, nil
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
