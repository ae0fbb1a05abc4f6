package proxyconfig

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Default gives the values that Istio documents for MeshConfig.defaultConfig. Paths are relative to the working
// directory, which is / in a container.
func Default() *meshconfig.ProxyConfig {
	return &meshconfig.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		BinaryPath:               "/usr/local/bin/envoy",
		ClusterName:              &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
		DiscoveryAddress:         "istiod.istio-system.svc:15012",
		ControlPlaneAuthPolicy:   meshconfig.AuthenticationPolicy_MUTUAL_TLS,
		ProxyAdminPort:           15000,
		StatusPort:               15020,
		StatNameLength:           189,
		FileFlushInterval:        durationpb.New(time.Second),
	}
}
