package mesh

import "cmp"

// Account is a service account of a cluster, as an authenticated caller has shown to be. The zero value is nobody;
// one without a cluster is known to no API server.
type Account struct {
	Cluster         ClusterID
	Namespace, Name string
}

// User gives the name by which the API server knows the account ("system:serviceaccount:NAMESPACE:NAME").
func (a Account) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// String gives "cluster/namespace/name", for people.
func (a Account) String() string { return string(a.Cluster) + "/" + a.Namespace + "/" + a.Name }

// Compare orders accounts.
func (a Account) Compare(b Account) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// SecretAccess says whether an account may read the Secrets of its namespace, as the API server of its cluster sees it
// (SubjectAccessReview). It is immutable.
type SecretAccess struct {
	Account
	Allowed bool
}
