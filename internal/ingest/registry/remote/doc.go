// Package remote is the registry of other clusters: those to which a kubeconfig leads that is kept in a Secret.
//
// In: the Secrets of one namespace that are labelled istio/multiCluster=true, each with kubeconfigs under the names of clusters;
// and, for each cluster, a source of its objects and the converters that make services of them, which discovery gives. Out:
// batches of services, shards and workloads of all those clusters, as one feed. Nothing else of a remote cluster is read: rules
// come from the config cluster.
//
// Law: clusters do not know each other. Each is read and converted by goroutines of its own, and what it says is written down
// ([ledger]), so that it can be taken back as one change. A cluster whose Secret goes is taken back; one whose kubeconfig changes
// is read anew beside the old one, whose word counts until the new one is in sync; then the difference is sent. A cluster that
// cannot be reached keeps what it last said, and holds up the start for no longer than Options.Timeout.
//
// Start with [Clusters] in clusters.go; secret.go says which clusters there are to be, kubeconfig.go who may be called with what,
// member.go is one cluster, ledger.go what it said, status.go what people are shown.
package remote
