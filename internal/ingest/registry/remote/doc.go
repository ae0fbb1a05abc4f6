// Package remote is the registry of remote clusters, whose kubeconfigs are stored in Secrets.
//
// The inputs are the Secrets of one namespace with the label istio/multiCluster=true, each with
// kubeconfigs keyed by cluster name, and for each cluster a source and converters that
// internal/discovery creates. The output is one feed with the services, shards and workloads of all
// these clusters. Nothing else is read from a remote cluster: rules come from the config cluster.
//
// Clusters are independent of each other. Each is read and converted by its own goroutines, and the
// result is recorded in a [clusterState], so that it can be deleted as one change. If the Secret of
// a cluster is deleted, so are its services. If the kubeconfig changes, the cluster is read a
// second time in parallel. The old data stays in use until the new reader is in sync, and then the
// difference is sent. A cluster that is unreachable keeps its last state, and delays the start for
// at most Options.Timeout.
//
// Start reading with [Clusters] in clusters.go. secret.go reads the Secrets, kubeconfig.go decides
// which kubeconfigs are safe, member.go reads one cluster, cluster_state.go records its state, and
// status.go reports it to users.
package remote
