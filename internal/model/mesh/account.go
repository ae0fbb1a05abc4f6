package mesh

import "cmp"

// Account is the service account that a caller has authenticated as, in a cluster. The zero value
// is no account. An account without a cluster is not known to any API server.
type Account struct {
	Cluster         ClusterID
	Namespace, Name string
}

// User returns the account's user name at the API server ("system:serviceaccount:NAMESPACE:NAME").
func (a Account) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// String returns "cluster/namespace/name", for logs.
func (a Account) String() string { return string(a.Cluster) + "/" + a.Namespace + "/" + a.Name }

// Compare orders accounts by cluster, namespace and name.
func (a Account) Compare(b Account) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// SecretAccess is whether an account may read the Secrets of its namespace, according to the API
// server of its cluster (SubjectAccessReview). It is immutable.
type SecretAccess struct {
	Account
	Allowed bool
}
