package cluster

import (
	"time"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// Tier selects the components of a cluster that are started.
type Tier int

// The tiers; each includes the previous one.
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

// Options configure a cluster. The zero value is an API server alone.
type Options struct {
	Tier Tier
	// GatewayAPI are the kinds of Gateway API to be installed.
	GatewayAPI GatewayAPI
	// IstioKinds installs Istio's kinds (default false).
	IstioKinds bool
	// InferenceKinds installs the kinds of the Gateway API Inference Extension (default false).
	InferenceKinds bool
	// CRDs are more files or directories with CustomResourceDefinitions.
	CRDs []string
	// Images are the images of Pods in the tier Node, besides [BaseImages].
	Images image.Map
	// Index chooses the cluster's addresses. Clusters that must reach each other (see Connect) need
	// different ones; 0 to 40.
	Index int
	// DualStack adds IPv6 addresses to a cluster of the tier Node. The machine must have IPv6.
	DualStack bool
	// NodeLabels are labels of the Node, such as its region and zone.
	NodeLabels map[string]string
	// Dir keeps the cluster's state: keys, logs, data. Empty: a temporary directory, removed by
	// Down.
	Dir string
	// APIServerArgs are more flags of kube-apiserver.
	APIServerArgs []string
	// Output receives progress messages. If nil, there are none.
	Output func(format string, args ...any)
}

// Timeouts of the start and stop of programs, and the polling interval.
const (
	startPatience = 90 * time.Second
	stopPatience  = 15 * time.Second
	pollInterval  = 20 * time.Millisecond
)
