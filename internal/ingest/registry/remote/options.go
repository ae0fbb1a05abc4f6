package remote

import (
	"context"
	"net/netip"
	"time"
)

// Settings configure how remote clusters are read. Their kubeconfigs are in Secrets.
type Settings struct {
	// Timeout limits how long remote clusters, and other datacenters and peers of Consul, may delay
	// the start; 0 sets no limit (default 30 s; PILOT_REMOTE_CLUSTER_TIMEOUT).
	Timeout time.Duration
	// Insecure lists the dangerous kubeconfig fields that are accepted nevertheless
	// (PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS).
	Insecure []string
	// LocalSecrets reads the Secrets from the cluster in which the control plane runs, instead of
	// from the config cluster of --kubeconfig (default false; LOCAL_CLUSTER_SECRET_WATCHER).
	LocalSecrets bool
	// Namespace is the namespace of the Secrets; if empty, the control plane's
	// (--clusterRegistriesNamespace).
	Namespace string
	// ReadWorkloadEntries reads WorkloadEntries of remote clusters (default true;
	// PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY).
	ReadWorkloadEntries bool
	// External manages remote clusters that have no control plane of their own and name this one in
	// the annotation topology.istio.io/controlPlaneClusters of their system namespace (default
	// false; EXTERNAL_ISTIOD).
	External bool
	// ReadCredentials reads Secrets of remote clusters for the gateways there (default true;
	// PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER). Without it they are sent Secrets of the config
	// cluster.
	ReadCredentials bool
	// ResolveGatewayNames uses network gateways whose address is a DNS name (default true;
	// RESOLVE_HOSTNAME_GATEWAYS).
	ResolveGatewayNames bool
	// Lookup resolves the DNS names of network gateways; if nil, the system resolver does.
	// GatewayRefresh is the interval of lookups; 0 is 30 s.
	Lookup         func(ctx context.Context, name string) ([]netip.Addr, error)
	GatewayRefresh time.Duration
}

// DefaultSettings returns Istio's default settings.
func DefaultSettings() Settings {
	return Settings{Timeout: 30 * time.Second, ReadWorkloadEntries: true, ReadCredentials: true,
		ResolveGatewayNames: true}
}
