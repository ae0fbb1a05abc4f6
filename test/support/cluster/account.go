package cluster

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client returns an administrator's client of the built-in kinds.
func (c *Cluster) Client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Namespace makes a namespace with a name of its own, of a prefix, and labels. It stays after the
// test: nothing empties it in the tier API.
func (c *Cluster) Namespace(t testing.TB, prefix string, labels map[string]string) string {
	t.Helper()
	ns, err := c.Client(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-", Labels: labels},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return ns.Name
}

// UserConfig is that of a client that shows a certificate of a user in groups. It may do what RBAC
// grants them; see Grant.
func (c *Cluster) UserConfig(name string, groups ...string) *rest.Config {
	return c.keys.userConfig(c.apiAddress(), name, groups...)
}

// ServiceAccountConfig is that of a client with a token of a service account, which is made if it
// is not there.
func (c *Cluster) ServiceAccountConfig(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	config := c.keys.restConfig(c.apiAddress())
	config.BearerToken = c.Token(t, namespace, name)
	return config
}

// Token returns a token of a service account, for audiences (none: the API server's own), that is
// valid for an hour. The account is made if it is not there.
func (c *Cluster) Token(t testing.TB, namespace, name string, audiences ...string) string {
	t.Helper()
	return c.TokenOf(t, namespace, name, authenticationv1.TokenRequestSpec{Audiences: audiences})
}

// TokenOf is Token with all options: a lifetime in seconds (at least 600), and an object with which
// the token ends.
func (c *Cluster) TokenOf(t testing.TB, namespace, name string, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	accounts := c.Client(t).CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(
		t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{},
	)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("make service account %s/%s: %v", namespace, name, err)
	}
	got, err := accounts.CreateToken(
		t.Context(),
		name,
		&authenticationv1.TokenRequest{Spec: spec},
		metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatalf("ask for a token of %s/%s: %v", namespace, name, err)
	}
	return got.Status.Token
}

// User is the subject of a name.
func User(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// ServiceAccount is the subject of a namespace and a name.
func ServiceAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Grant grants the rules to a subject in all namespaces, by a ClusterRole and its binding, and
// returns their name. The API server applies it some milliseconds later.
func (c *Cluster) Grant(t testing.TB, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	client := c.Client(t).RbacV1()
	role, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a role: %v", err)
	}
	_, err = client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("bind a role: %v", err)
	}
	return role.Name
}

// KubeconfigOf writes a kubeconfig of a configuration until the test ends, and returns its path.
func (c *Cluster) KubeconfigOf(t testing.TB, config *rest.Config) string {
	t.Helper()
	path := t.TempDir() + "/kubeconfig"
	if err := WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	return path
}
