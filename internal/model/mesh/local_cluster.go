package mesh

// LocalCluster is the name of the cluster that a proxy's bootstrap declares as its own (cluster_manager.local_cluster_name). Its
// endpoints are the proxies of the same workload, itself included. Envoy's zone-aware routing compares their distribution over
// zones with the distribution of the endpoints that it calls.
const LocalCluster = "local_cluster"
