// Package cluster makes Clusters: how a proxy reaches the services that it may call, and its own workload.
//
// In: a service's port, the DestinationRule for it, the mesh's settings and a few traits of the proxies. Out: one Cluster.
// Law: pure. Equal inputs give equal bytes: every needless difference costs all proxies their connections. Clusters of
// services by EDS do not depend on endpoints, but for the accounts that answer for them where proxies check that.
//
// Start with [Outbound] in outbound.go and [Inbound] in inbound.go; builtin.go has those that every proxy gets. Each group of
// settings has a file of its own: discovery.go, connection_pool.go, http_protocol.go, load_balancer.go,
// outlier_detection.go, tls.go with tls_secret.go, dynamic.go, bind.go. honoured.go says what of a DestinationRule is not followed; generator.go is what
// xDS asks.
package cluster
