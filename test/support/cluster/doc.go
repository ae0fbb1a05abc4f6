// Package cluster starts real Kubernetes clusters for tests: etcd, kube-apiserver and as much of
// the rest as a test needs.
//
// In: [Options], of which the zero value is an API server with RBAC and Istio's kinds on loopback.
// Out: a [Cluster] with clients, kubeconfigs, users and tokens; its API server can be killed,
// paused and started again.
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Start(t, cluster.Options{IstioKinds: true})
//		client, err := kube.NewClient(c.Config())
//
// One API server serves all tests of a package, each in a namespace of its own; see [Shared].
//
// # Tiers
//
//	API          etcd, kube-apiserver                 watches, RBAC, admission, webhooks by URL        no root
//	Controllers  and kube-controller-manager          EndpointSlices, service accounts, garbage        no root
//	Node         and a node: kubelet, kube-proxy,     pods that run, in network namespaces             root
//	             CoreDNS
//
// In the tier API nothing makes the service account `default` of a namespace, and nothing deletes
// the objects of a deleted namespace: pods are admitted without the one, and tests do not wait for
// the other.
//
// # Law
//
// Nothing of the machine is named or changed but the user's cache, in which the programs are kept
// (see programs.go), and a temporary directory. A cluster ends with Down, with its test, or with
// the program that started it, however that ends: its processes ask the kernel to be killed with
// their parent. Ports are reserved before they are listened at, so clusters do not fight for them;
// several run side by side.
//
// Start with [Up] in cluster.go.
package cluster
