package mesh

// LocalCluster is the cluster that a proxy's bootstrap declares as its own
// (cluster_manager.local_cluster_name). Its endpoints are the proxies of the same workload,
// including itself. Envoy's zone-aware routing compares their distribution over zones with that of
// the upstream endpoints.
const LocalCluster = "local_cluster"
