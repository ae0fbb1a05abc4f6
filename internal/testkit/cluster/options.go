package cluster

import "time"

// Tier is how much of a cluster is started.
type Tier int

// The tiers; each has all of the one before it.
const (
	// API is etcd and kube-apiserver.
	API Tier = iota
	// Controllers adds kube-controller-manager.
	Controllers
	// Node adds a node, on which pods run. It needs root.
	Node
)

// GatewayAPI is a channel of Gateway API's kinds.
type GatewayAPI string

// The channels. Without is the zero value.
const (
	Without      GatewayAPI = ""
	Standard     GatewayAPI = "standard"
	Experimental GatewayAPI = "experimental"
)

// Options say what a cluster has. The zero value is an API server with Istio's kinds.
type Options struct {
	Tier Tier
	// GatewayAPI are the kinds of Gateway API to be installed.
	GatewayAPI GatewayAPI
	// NoIstioKinds leaves Istio's kinds out, for tests of their absence.
	NoIstioKinds bool
	// CRDs are more files or directories with CustomResourceDefinitions.
	CRDs []string
	// Dir keeps the cluster's state: keys, logs, data. Empty: a temporary directory, removed by Down.
	Dir string
	// APIServerArgs are more flags of kube-apiserver.
	APIServerArgs []string
	// Output is told what is done, for people; nil: nobody.
	Output func(format string, args ...any)
}

// limits of patience: what takes longer has failed.
const (
	startPatience = 90 * time.Second
	stopPatience  = 10 * time.Second
	pollInterval  = 20 * time.Millisecond
)
