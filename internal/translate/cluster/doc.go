// Package cluster generates Envoy's Clusters: how a proxy reaches the services that it may call,
// and its own workload.
//
// The inputs are a service's port, its DestinationRule, the mesh's settings and a few properties of
// the proxies. The output is one Cluster. The functions are pure, and equal inputs yield equal
// bytes: every needless difference costs all proxies their connections. Clusters with EDS do not
// depend on endpoints, except for the accounts of these where proxies verify them.
//
// Start with [Outbound] in outbound.go and [Inbound] in inbound.go; builtin.go has the clusters of
// no service. Each group of settings has its file: discovery.go, dns.go, connection_pool.go,
// http_protocol.go, load_balancer.go, outlier_detection.go, tls.go with tls_secret.go and
// tls_request.go, dynamic.go, bind.go. File honoured.go reports settings of a DestinationRule
// without effect. File generator.go has the entry points for xDS.
package cluster
